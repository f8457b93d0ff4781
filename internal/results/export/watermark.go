package export

import (
	"context"
	"encoding/json"
	"fmt"

	"latentbeam/internal/results/tables"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas/fault"
)

// watermarkReading is the reading with which a program reports that it has put a watermark into a video. In tables, and
// in the carried columns of a later job, it is measured_watermark.
const watermarkReading = "watermark"

// readRow reads the necessary columns of a table of videos.
type readRow struct {
	ID       string `parquet:"id"`
	Readings string `parquet:"readings"`
	Extra    string `parquet:"extra"`
}

// Schema implements schemas.Row. It is not used, because the row is only read.
func (readRow) Schema() string { return "" }

// ByteSize implements schemas.Row.
func (readRow) ByteSize() int { return 0 }

// watermarked reports whether the readings of a row, or its carried columns, report a watermark. Both are JSON objects or "".
func watermarked(readings, extra string) bool {
	for _, text := range []string{readings, extra} {
		var columns map[string]any
		if json.Unmarshal([]byte(text), &columns) != nil { // "", no columns
			continue
		}
		for _, name := range []string{watermarkReading, "measured_" + watermarkReading} {
			if value := columns[name]; value != nil && value != "" {
				return true
			}
		}
	}
	return false
}

// refuseWatermarks returns an error for an output with watermarked videos, because a model that is trained on them learns the
// watermark.
func refuseWatermarks(ctx context.Context, s store.Store) error {
	first, n := "", int64(0)
	for _, table := range []string{"videos", "latents"} {
		files, err := tables.Files(ctx, s, table)
		if err != nil {
			return err
		}
		for _, name := range files {
			if err := eachWatermark(ctx, s, table, name, func(id string) {
				if n++; first == "" {
					first = id
				}
			}); err != nil {
				return err
			}
		}
	}
	if n == 0 {
		return nil
	}
	return fault.Usage(fmt.Errorf("export %s: %d rows have or come from videos with a watermark (the reading %s), such as %s: a model that is "+
		"trained on them learns it. Exclude them with --where (measured_watermark), and give --watermarked, which exports all chosen rows", s.URL(), n, watermarkReading, first))
}

// eachWatermark calls found with the id of each row of a table's file that reports a watermark.
func eachWatermark(ctx context.Context, s store.Store, table, name string, found func(id string)) error {
	file, err := s.Open(ctx, name)
	if err != nil {
		return err
	}
	defer file.Close()
	path := store.Address(s.URL(), name)
	if table == "latents" {
		for row, err := range typed.RowsOf[extraRow](path, file) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			if watermarked("", row.Extra) {
				found(row.ID)
			}
		}
		return nil
	}
	for row, err := range typed.RowsOf[readRow](path, file) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if watermarked(row.Readings, row.Extra) {
			found(row.ID)
		}
	}
	return nil
}

// extraRow reads the necessary columns of a table of latents.
type extraRow struct {
	ID    string `parquet:"id"`
	Extra string `parquet:"extra"`
}

// Schema implements schemas.Row. It is not used, because the row is only read.
func (extraRow) Schema() string { return "" }

// ByteSize implements schemas.Row.
func (extraRow) ByteSize() int { return 0 }
