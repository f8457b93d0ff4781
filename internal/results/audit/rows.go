package audit

import (
	"context"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

// rowsOf reads every row of a file of a table, until each returns an error.
func rowsOf[R schemas.Row](ctx context.Context, s store.Store, name string, each func(R) error) error {
	f, err := s.Open(ctx, name)
	if err != nil {
		return err
	}
	defer f.Close()
	for row, err := range typed.RowsOf[R](store.Address(s.URL(), name), f) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return nil
}

// keyRow is a row of which the key alone is read.
type keyRow struct {
	Key string `parquet:"key"`
}

// Schema and ByteSize make it a row; it is only read.
func (keyRow) Schema() string { return "" }
func (keyRow) ByteSize() int  { return 0 }

// anyRow is what all our tables have.
type anyRow struct {
	ID      string `parquet:"id"`
	Key     string `parquet:"key"`
	Message string `parquet:"message"`
	Prompt  string `parquet:"prompt"`
}

// Schema and ByteSize make it a row; it is only read.
func (anyRow) Schema() string { return "" }
func (anyRow) ByteSize() int  { return 0 }
