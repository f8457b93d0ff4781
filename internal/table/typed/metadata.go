package typed

import (
	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/table/pages"
)

// Metadata returns the key-value metadata of a parquet file; path is its name for people. It does not close the file.
func Metadata(path string, file store.Reader) (map[string]string, error) {
	p, err := pages.OpenReader(path, file)
	if err != nil {
		return nil, err
	}
	metadata := map[string]string{}
	for _, kv := range p.Metadata().KeyValueMetadata {
		metadata[kv.Key] = kv.Value
	}
	return metadata, nil
}

// Column describes a column of a table's file.
type Column struct {
	Name string
	Kind parquet.Kind // of its values
	List bool         // each row has a list of values
}

// Columns describes the columns of a parquet file, in its order.
func Columns(path string, file store.Reader) (columns []Column, err error) {
	p, err := pages.OpenReader(path, file)
	if err != nil {
		return nil, err
	}
	err = pages.Guarded(func() error {
		for _, c := range p.Root().Columns() {
			leaf := c
			for !leaf.Leaf() && len(leaf.Columns()) == 1 {
				leaf = leaf.Columns()[0]
			}
			if !leaf.Leaf() {
				continue // a group of several columns: no table of ours has one
			}
			columns = append(columns, Column{Name: c.Name(), Kind: leaf.Type().Kind(), List: leaf != c})
		}
		return nil
	})
	return columns, err
}
