package typed

import (
	"latentbeam/internal/storage/store"
	"latentbeam/internal/table/pages"
)

// Metadata returns the key-value metadata of a parquet file; path is its name for people. The file stays open.
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
