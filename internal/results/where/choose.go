package where

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"latentbeam/internal/storage/store"
)

// Dataset is the name of the table of a finished output's videos that loaders of data sets read.
const Dataset = "metadata.parquet"

// Choose returns the table Dataset with only the chosen rows. files are the names of their videos and posters in the output, without
// duplicates.
func Choose(ctx context.Context, s store.Store, f *Filter) (table []byte, files []string, err error) {
	chosen, err := f.Rows(ctx, s, Dataset)
	if err != nil {
		return nil, nil, err
	}
	file, err := s.Open(ctx, Dataset)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	p, err := parquet.OpenFile(file, file.Size())
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", store.Address(s.URL(), Dataset), err)
	}
	var places []int
	for _, name := range []string{"video_path", "poster"} {
		if leaf, found := p.Schema().Lookup(name); found {
			places = append(places, leaf.ColumnIndex)
		}
	}
	options := []parquet.WriterOption{p.Schema(), parquet.Compression(&zstd.Codec{})}
	for _, kv := range p.Metadata().KeyValueMetadata {
		options = append(options, parquet.KeyValueMetadata(kv.Key, kv.Value))
	}
	var out bytes.Buffer
	w := parquet.NewWriter(&out, options...)
	at, seen := 0, map[string]bool{}
	for _, group := range p.RowGroups() {
		rows := group.Rows()
		buffer := make([]parquet.Row, 64)
		for {
			n, err := rows.ReadRows(buffer)
			for _, row := range buffer[:n] {
				matches := chosen[at]
				at++
				if !matches {
					continue
				}
				if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
					return nil, nil, errors.Join(err, rows.Close())
				}
				for _, v := range row {
					for _, place := range places {
						if v.Column() != place || v.IsNull() {
							continue
						}
						if name := string(v.ByteArray()); name != "" && !outside(name) && !seen[name] {
							seen[name] = true
							files = append(files, name)
						}
					}
				}
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, nil, errors.Join(err, rows.Close())
			}
		}
		if err := rows.Close(); err != nil {
			return nil, nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), files, err
}

// outside reports whether name is a video of the input, which is not a file of the output.
func outside(name string) bool {
	return strings.HasPrefix(name, "../") || strings.HasPrefix(name, "/") || strings.Contains(name, "://")
}
