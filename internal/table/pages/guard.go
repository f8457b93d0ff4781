package pages

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"latentbeam/internal/config/document"
	"latentbeam/internal/storage/source"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// Limits of parquet files. The library trusts a file's claims: it allocates by the footer's length, and it doubles a buffer for
// an LZ4 page until memory ends. A program cannot recover from that, so the claims are checked here first.
const (
	maxFooterBytes   = 64 << 20
	maxSchemaNodes   = 1 << 14
	maxSchemaDepth   = 32
	maxDeclaredRatio = 100       // uncompressed bytes for each byte of the file
	minDeclaredBytes = 256 << 20 // small files may exceed the ratio up to here

	MaxPromptPageBytes = 64 << 20  // uncompressed size of a page of a prompt table
	MaxTensorPageBytes = 1 << 30   // uncompressed size of a page with tensors
	maxPageValues      = 1 << 24   // of any page: a run of a million equal values takes a few bytes
	maxOpenPageBytes   = 512 << 20 // sum of the largest pages of all columns that are read together
)

const (
	parquetMagic   = "PAR1"
	encryptedMagic = "PARE"
	rewriteFix     = "write the file again, for example with DuckDB: COPY (FROM 'in.parquet') TO 'out.parquet' " +
		"(COMPRESSION zstd)"
	CopyFix = "was it copied completely? Or " + rewriteFix
)

// Parquet is a parquet file with a checked footer.
type Parquet struct {
	Path string
	file *watchedReader
	size int64
	half []bool // for each leaf column: its values are half floats
	*parquet.File
}

// watchedReader remembers the first error of reading. Such an error does not mean that the file is damaged.
type watchedReader struct {
	store.Reader
	err error
}

// ReadAt implements io.ReaderAt.
func (r *watchedReader) ReadAt(p []byte, at int64) (int, error) {
	n, err := r.Reader.ReadAt(p, at)
	if n < len(p) && err != nil && r.err == nil {
		r.err = fmt.Errorf("read %d bytes at byte %d: %w", len(p), at, err)
	}
	return n, err
}

// Failed returns the read error, or nil.
func (p *Parquet) Failed() error { return p.file.err }

// Open opens a user's file with all checks.
func Open(path string) (*Parquet, error) {
	file, err := source.Open(context.Background(), path)
	if err != nil {
		return nil, Unopened(path, err)
	}
	p, err := OpenReader(path, file)
	if err != nil {
		_ = file.Close()
	}
	return p, err
}

// OpenReader reads a file with all checks; path is the name in messages. A *document.Error says that the file cannot be read.
func OpenReader(path string, file store.Reader) (*Parquet, error) {
	p := &Parquet{Path: path, file: &watchedReader{Reader: file}, size: file.Size()}
	if err := p.open(); err != nil {
		var known *document.Error
		if errors.As(err, &known) {
			return nil, err
		}
		if world := p.Failed(); fault.ClassOf(world) != fault.ClassRow {
			return nil, world
		}
		return nil, document.NewError(document.Position{File: path}, "not a readable parquet file: %v", err).
			WithFix("%s", CopyFix)
	}
	return p, nil
}

func (p *Parquet) open() error {
	meta, err := p.footer()
	if err != nil {
		return err
	}
	if err := p.checkFooter(meta); err != nil {
		return err
	}
	for i := range meta.Schema {
		if e := &meta.Schema[i]; e.Type.Valid {
			_, half := e.LogicalType.Value.(*format.Float16Type)
			p.half = append(p.half, half && e.Type.V == format.FixedLenByteArray && e.TypeLength.V == 2)
		}
	}
	return Guarded(func() error {
		p.File, err = parquet.OpenFile(p.file, p.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
		return err
	})
}

// IsHalf reports whether the values of a leaf column are half floats. parquet-go 0.32.0 has no type for them and treats them as
// two bytes.
func (p *Parquet) IsHalf(leaf *parquet.Column) bool { return p.half[leaf.Index()] }

// Guarded calls f and turns a panic of the parquet library into an error.
func Guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the file is damaged (%v)", r)
		}
	}()
	return f()
}

// footer reads the file's footer after checking that its claims are possible.
func (p *Parquet) footer() (*format.FileMetaData, error) {
	const tail = 8 // length of the footer and the magic number
	if p.size < int64(len(parquetMagic)+tail) {
		return nil, fmt.Errorf("it has only %d bytes", p.size)
	}
	var ends [len(parquetMagic) + tail]byte
	if _, err := p.file.ReadAt(ends[:4], 0); err != nil {
		return nil, err
	}
	if _, err := p.file.ReadAt(ends[4:], p.size-tail); err != nil {
		return nil, err
	}
	first, last := string(ends[:4]), string(ends[8:])
	if first == encryptedMagic || last == encryptedMagic {
		return nil, errors.New("it is encrypted")
	}
	if first != parquetMagic || last != parquetMagic {
		return nil, errors.New("it does not begin and end as parquet does")
	}
	length := int64(binary.LittleEndian.Uint32(ends[4:]))
	if length > p.size-int64(len(ends)) {
		return nil, fmt.Errorf("its footer claims %d bytes, the file has %d", length, p.size)
	}
	if length > maxFooterBytes {
		return nil, fmt.Errorf("its footer has %d bytes, more than %d", length, maxFooterBytes)
	}
	data := make([]byte, length)
	if _, err := p.file.ReadAt(data, p.size-tail-length); err != nil {
		return nil, err
	}
	if _, err := skimThrift(data); err != nil {
		return nil, fmt.Errorf("its footer is damaged: %w", err)
	}
	meta := new(format.FileMetaData)
	err := Guarded(func() error {
		r := new(thrift.CompactProtocol).NewReaderFromBytes(data)
		return thrift.NewDecoder(r).Decode(meta)
	})
	if err != nil {
		return nil, fmt.Errorf("its footer is damaged: %w", err)
	}
	return meta, nil
}

func (p *Parquet) checkFooter(meta *format.FileMetaData) error {
	leaves, err := checkSchema(meta.Schema)
	if err != nil {
		return err
	}
	rows, declared := int64(0), int64(0)
	for i, g := range meta.RowGroups {
		if len(g.Columns) != leaves {
			return fmt.Errorf("row group %d has %d columns, the schema %d", i, len(g.Columns), leaves)
		}
		if g.NumRows < 0 || g.NumRows > meta.NumRows-rows {
			return fmt.Errorf("row group %d claims %d rows, the file %d", i, g.NumRows, meta.NumRows)
		}
		rows += g.NumRows
		if g.NumRows == 0 { // pyarrow writes tables without rows like this: its chunks have no position
			continue
		}
		for j := range g.Columns {
			if err := p.checkChunk(&g.Columns[j]); err != nil {
				return fmt.Errorf("row group %d, column %d: %w", i, j, err)
			}
			// The library decompresses all chunks of a column with the codec of the first, even if the first has no rows.
			if g.Columns[j].MetaData.Codec != meta.RowGroups[0].Columns[j].MetaData.Codec {
				return fmt.Errorf("row group %d compresses column %d in another way than the first", i, j)
			}
			declared += g.Columns[j].MetaData.TotalUncompressedSize
			if limit := max(minDeclaredBytes, maxDeclaredRatio*p.size); declared > limit {
				return fmt.Errorf("it claims to hold more than %d bytes in %d", limit, p.size)
			}
		}
	}
	if rows != meta.NumRows {
		return fmt.Errorf("its row groups have %d rows, the file claims %d", rows, meta.NumRows)
	}
	return nil
}

// checkSchema walks the flattened tree of columns and counts its leaves.
func checkSchema(nodes []format.SchemaElement) (leaves int, err error) {
	if len(nodes) == 0 || len(nodes) > maxSchemaNodes {
		return 0, fmt.Errorf("its schema has %d nodes, 1 to %d are read", len(nodes), maxSchemaNodes)
	}
	var open []int32 // remaining children of each group around the node
	for i, n := range nodes {
		if i > 0 {
			for len(open) > 0 && open[len(open)-1] == 0 {
				open = open[:len(open)-1]
			}
			if len(open) == 0 {
				return 0, fmt.Errorf("its schema has nodes behind its end")
			}
			open[len(open)-1]--
		}
		children := n.NumChildren.V
		switch {
		case children < 0 || int(children) > len(nodes):
			return 0, fmt.Errorf("a node of its schema claims %d children", children)
		case n.TypeLength.V < 0:
			return 0, fmt.Errorf("a node of its schema claims values of %d bytes", n.TypeLength.V)
		case i > 0 && n.Type.Valid == (children > 0):
			return 0, errors.New("a node of its schema is neither a column nor a group of columns")
		case i == 0 || children > 0:
			if open = append(open, children); len(open) > maxSchemaDepth {
				return 0, fmt.Errorf("its schema nests deeper than %d levels", maxSchemaDepth)
			}
		default:
			leaves++
		}
	}
	for _, missing := range open {
		if missing > 0 {
			return 0, errors.New("its schema ends in the middle")
		}
	}
	return leaves, nil
}

// checkChunk checks that a column chunk is inside the file.
func (p *Parquet) checkChunk(c *format.ColumnChunk) error {
	m := &c.MetaData
	if c.FilePath != "" {
		return fmt.Errorf("it lies in another file, %q", c.FilePath)
	}
	start := chunkStart(m)
	switch {
	case m.NumValues < 0, m.TotalCompressedSize < 0, m.TotalUncompressedSize < 0,
		start < int64(len(parquetMagic)), start > p.size, m.TotalCompressedSize > p.size-start,
		m.DataPageOffset < start, m.DataPageOffset > start+m.TotalCompressedSize:
		return errors.New("it lies outside of the file")
	}
	return nil
}

// chunkStart returns the offset of a column chunk's first page.
func chunkStart(m *format.ColumnMetaData) int64 {
	if m.DictionaryPageOffset > 0 && m.DictionaryPageOffset < m.DataPageOffset {
		return m.DictionaryPageOffset
	}
	return m.DataPageOffset
}

// Close closes the file.
func (p *Parquet) Close() error { return p.file.Close() }

// Unopened returns an error for a file that cannot be opened. A temporary error, such as a network error, is not an error of
// the file.
func Unopened(path string, err error) error {
	if fault.ClassOf(err) != fault.ClassRow {
		return err
	}
	return document.NewError(document.Position{File: path}, "%v", err)
}

// ChunkError returns an error that names the column that cannot be read. If reading failed, it wraps the read error; else the
// file is damaged or its coding is unknown, and the error says what to do.
func (p *Parquet) ChunkError(group int, column string, err error) error {
	if failed := p.Failed(); failed != nil {
		return fmt.Errorf("column %q of row group %d: %w", column, group, failed)
	}
	problem := document.NewError(document.Position{File: p.Path}, "column %q of row group %d cannot be read: %v",
		column, group, err)
	var coding codingError
	if errors.As(err, &coding) {
		return problem.WithFix("%s", rewriteFix)
	}
	return problem.WithFix("%s", CopyFix)
}
