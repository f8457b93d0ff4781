package write

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	parquetzstd "github.com/parquet-go/parquet-go/compress/zstd"

	"latentbeam/schemas"
)

// The keys of a table's file metadata.
const (
	MetadataSchema  = "latentbeam.schema"  // "videos/v1"
	MetadataVersion = "latentbeam.version" // version of the program that wrote the file
)

// rowGroupBytes is the size of a row group. Readers such as FastVideo's read a whole group for each row, and Hugging Face's
// dataset viewer refuses groups larger than 300 MB. For texts the library needs up to five times the size of a group: a
// dictionary, its keys, and a page that grows. rowGroupRows limits groups of small rows: the library needs about a kilobyte for
// each row until the group is written.
const (
	rowGroupBytes = 16 << 20
	rowGroupRows  = 8192
)

const pageBytes = 256 << 10

// pageCodec is zstd with one encoder for all files and a window of a few pages. The library's encoders take 16 MiB each and are
// created for every file.
type pageCodec struct{ parquetzstd.Codec }

var pageEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(4*pageBytes), zstd.WithZeroFrames(true), zstd.WithEncoderCRC(false))
})

// Encode compresses a page.
func (*pageCodec) Encode(dst, src []byte) ([]byte, error) {
	e, err := pageEncoder()
	if err != nil {
		return nil, fmt.Errorf("open zstd: %w", err)
	}
	return e.EncodeAll(src, dst[:0]), nil
}

// Options are the facts in a file besides its rows.
type Options struct {
	Version       string            // of the program; equal versions write equal bytes for equal rows
	Metadata      map[string]string // additional key-value metadata; may be nil
	RowGroupBytes int               // 0 is the default, 16 MiB
}

// Writer writes one parquet file, row by row. It holds at most one row group in memory. Equal rows in the same order give equal
// bytes.
type Writer[T schemas.Row] struct{ fileWriter[T] }

// fileWriter writes rows of a given schema.
type fileWriter[T any] struct {
	out     *parquet.GenericWriter[T]
	name    string // of the schema
	limit   int
	size    int // of the open row group
	inGroup int // rows in the open row group
	rows    int64
}

// NewWriter starts a file. Tensor columns are not compressed and have no statistics: minima and maxima in every page header
// would make a file five times as large.
func NewWriter[T schemas.Row](w io.Writer, opts Options) *Writer[T] {
	var row T
	return &Writer[T]{newWriter[T](w, row.Schema(), parquet.SchemaOf(row), opts)}
}

func newWriter[T any](w io.Writer, name string, schema *parquet.Schema, opts Options) fileWriter[T] {
	options := []parquet.WriterOption{
		schema,
		parquet.CreatedBy("latentbeam", opts.Version, "parquet-go"),
		parquet.Compression(&pageCodec{}),
		parquet.PageBufferSize(pageBytes),
		parquet.KeyValueMetadata(MetadataSchema, name),
		parquet.KeyValueMetadata(MetadataVersion, opts.Version),
	}
	for _, name := range blobColumns(schema) {
		options = append(options, parquet.SkipPageBounds(name), parquet.SkipPageStatistics(name))
	}
	for _, key := range slices.Sorted(maps.Keys(opts.Metadata)) {
		options = append(options, parquet.KeyValueMetadata(key, opts.Metadata[key]))
	}
	limit := opts.RowGroupBytes
	if limit <= 0 {
		limit = rowGroupBytes
	}
	return fileWriter[T]{out: parquet.NewGenericWriter[T](w, options...), name: name, limit: limit}
}

// Write adds a row.
func (w *Writer[T]) Write(row T) error { return w.write(row, row.ByteSize()) }

// write adds a row of about size bytes.
func (w *fileWriter[T]) write(row T, size int) error {
	if _, err := w.out.Write([]T{row}); err != nil {
		return fmt.Errorf("write %s row %d: %w", w.name, w.rows+1, err)
	}
	w.rows++
	w.inGroup++
	if w.size += size; w.size >= w.limit || w.inGroup >= rowGroupRows {
		return w.Flush()
	}
	return nil
}

// Held returns about how many bytes of rows are in memory.
func (w *fileWriter[T]) Held() int { return w.size }

// Flush ends the current row group.
func (w *fileWriter[T]) Flush() error {
	w.size, w.inGroup = 0, 0
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write %s row group: %w", w.name, err)
	}
	return nil
}

// Close writes the footer; without it the file is not valid. It does not close the underlying writer.
func (w *fileWriter[T]) Close() error {
	if err := w.out.Close(); err != nil {
		return fmt.Errorf("write parquet footer: %w", err)
	}
	return nil
}

// Write writes all rows as one parquet file and returns their number. An error among the rows stops it, and the partial file is
// not valid.
func Write[T schemas.Row](w io.Writer, rows iter.Seq2[T, error], opts Options) (int64, error) {
	out := NewWriter[T](w, opts)
	for row, err := range rows {
		if err != nil {
			return out.rows, err
		}
		if err := out.Write(row); err != nil {
			return out.rows, err
		}
	}
	return out.rows, out.Close()
}

// blobColumns lists the top-level columns of raw bytes. Unlike texts they have no logical type.
func blobColumns(schema *parquet.Schema) []string {
	var names []string
	for _, f := range schema.Fields() {
		if f.Leaf() && f.Type().Kind() == parquet.ByteArray && f.Type().LogicalType() == nil {
			names = append(names, f.Name())
		}
	}
	return names
}
