package audit

import (
	"context"

	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas"
)

// keyRow reads only the key of a row.
type keyRow struct {
	Key string `parquet:"key"`
}

// Schema and ByteSize implement schemas.Row. They are not used, because the row is only read.
func (keyRow) Schema() string { return "" }
func (keyRow) ByteSize() int  { return 0 }

// anyRow reads columns that all tables of this program have.
type anyRow struct {
	ID      string `parquet:"id"`
	Key     string `parquet:"key"`
	Message string `parquet:"message"`
	Prompt  string `parquet:"prompt"`
}

// Schema and ByteSize implement schemas.Row.
func (anyRow) Schema() string { return "" }
func (anyRow) ByteSize() int  { return 0 }

// idRow reads only the id and the key of a row.
type idRow struct {
	ID  string `parquet:"id"`
	Key string `parquet:"key"`
}

// Schema and ByteSize implement schemas.Row.
func (idRow) Schema() string { return "" }
func (idRow) ByteSize() int  { return 0 }

// IDs returns the ids of the rows in the tables of an output by key. It leaves out keys with several ids.
func IDs(ctx context.Context, s store.Store) (map[schemas.Key]string, error) {
	ids, several := map[schemas.Key]string{}, map[schemas.Key]bool{}
	for _, table := range []string{"latents", "embeddings", "videos"} {
		names, err := tables.Files(ctx, s, table)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			err := tables.EachRow(ctx, s, name, func(r idRow) error {
				key, err := schemas.ParseKey(r.Key)
				if err != nil {
					return nil //nolint:nilerr // not a row of this program
				}
				if id, known := ids[key]; known && id != r.ID {
					several[key] = true
				}
				ids[key] = r.ID
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	for key := range several {
		delete(ids, key)
	}
	return ids, nil
}
