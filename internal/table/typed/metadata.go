package typed

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// Metadata returns the key-value metadata of one of our own parquet files.
func Metadata(r io.ReaderAt, size int64) (metadata map[string]string, err error) {
	defer func() {
		if v := recover(); v != nil { // parquet-go panics on some damaged footers
			err = fmt.Errorf("read parquet metadata: damaged file: %v", v)
		}
	}()
	f, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("read parquet metadata: %w", err)
	}
	metadata = map[string]string{}
	for _, kv := range f.Metadata().KeyValueMetadata {
		metadata[kv.Key] = kv.Value
	}
	return metadata, nil
}
