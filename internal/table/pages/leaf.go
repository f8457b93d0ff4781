package pages

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// leafBatch is the number of values that are read from a page at a time.
const leafBatch = 256

// Leaf reads the values of one leaf column of a row group, page by page. For each row of a damaged page it returns a
// *DamageError, and it continues with the next page.
type Leaf struct {
	Column *parquet.Column
	file   *Parquet
	group  int
	found  Chunk // result of the guard

	Span   int           // index of the current page; -1: none yet
	left   int           // remaining values of the page; for a damaged page remaining rows
	damage *DamageError  // why the page cannot be read; nil: it can
	pages  parquet.Pages // positioned before the next page; nil: must be opened there
	page   parquet.Page
	values parquet.ValueReader // of the current page
	batch  [leafBatch]parquet.Value
	at, n  int

	isBoolean bool
	booleans  []byte // the decoded values, for boolean columns
}

// DamageError says why the rows of one page cannot be read.
type DamageError struct {
	group, page int
	at          int64 // offset of the page
	err         error
}

// Error implements error.
func (e *DamageError) Error() string {
	return fmt.Sprintf("page %d of row group %d, at byte %d, is damaged: %v", e.page, e.group, e.at, e.err)
}

// Unwrap implements errors.Unwrap.
func (e *DamageError) Unwrap() error { return e.err }

// Open starts to read a row group. found and booleans are the guard's results for its column.
func (l *Leaf) Open(file *Parquet, group int, found Chunk, booleans []byte) {
	l.Close()
	l.file, l.group, l.found = file, group, found
	l.Span, l.left, l.at, l.n, l.damage = -1, 0, 0, 0, nil
	l.isBoolean, l.booleans = isFlatBoolean(l.Column), booleans
}

// Next returns the next value. It is valid until the next call.
func (l *Leaf) Next() (parquet.Value, error) {
	for l.left == 0 {
		if err := l.nextPage(); err != nil {
			return parquet.Value{}, err
		}
	}
	l.left--
	switch {
	case l.isBoolean: // booleans also has values for a damaged page
		v := l.booleans[0]
		l.booleans = l.booleans[1:]
		if l.damage == nil {
			return booleanValue(v), nil
		}
		return parquet.Value{}, l.damage
	case l.damage != nil:
		return parquet.Value{}, l.damage
	case l.at == l.n:
		if err := l.fill(); err != nil {
			return parquet.Value{}, err
		}
	}
	l.at++
	return l.batch[l.at-1], nil
}

func booleanValue(v byte) parquet.Value {
	if v == isNull {
		return parquet.Value{}
	}
	return parquet.BooleanValue(v == isTrue)
}

// Continues reports whether the next value belongs to the same row as the last one.
func (l *Leaf) Continues() (bool, error) {
	for l.left == 0 {
		if l.Span+1 == len(l.found.Spans) {
			return false, nil
		}
		if err := l.nextPage(); err != nil {
			return false, err
		}
	}
	if l.damage != nil { // a page whose rows are known starts with a new row
		return false, nil
	}
	if l.at == l.n {
		if err := l.fill(); err != nil {
			return false, err
		}
	}
	return l.batch[l.at].RepetitionLevel() > 0, nil
}

// nextPage moves to the next page.
func (l *Leaf) nextPage() error {
	if l.Span+1 == len(l.found.Spans) {
		return io.ErrUnexpectedEOF
	}
	l.Span++
	span := &l.found.Spans[l.Span]
	l.left, l.at, l.n, l.damage = span.values, 0, 0, nil
	err := span.damage
	if err == nil && !l.isBoolean {
		err = Guarded(func() error { return l.readPage(span) })
	}
	if err == nil {
		return nil
	}
	l.Close()
	if failed := l.file.Failed(); failed != nil {
		return failed
	}
	damage := &DamageError{l.group, l.Span, span.At, err}
	if span.Loose {
		return l.file.ChunkError(l.group, l.Column.Name(), damage)
	}
	l.damage, l.left = damage, span.Rows
	return nil
}

// readPage lets the library decode a page, and checks that all values are there.
func (l *Leaf) readPage(span *DataPage) error {
	parquet.Release(l.page)
	l.page = nil
	if l.pages == nil {
		pages, err := l.file.pagesFrom(l.group, l.Column.Index(), span.At, l.found)
		if err != nil {
			return err
		}
		l.pages = pages
	}
	page, err := l.pages.ReadPage()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	l.page, l.values = page, page.Values()
	if n := page.NumValues(); n != int64(span.values) {
		return fmt.Errorf("it has %d values and claims %d", n, span.values)
	}
	if dict := page.Dictionary(); dict != nil {
		data := page.Data()
		for _, i := range data.Int32() {
			if i < 0 || int(i) >= dict.Len() {
				return errors.New("it has a value that its dictionary does not have")
			}
		}
	}
	return nil
}

// pagesFrom starts to read a column chunk at the data page at an offset. The library can skip pages only if it is told that the
// chunk starts after them.
func (p *Parquet) pagesFrom(group, column int, at int64, found Chunk) (parquet.Pages, error) {
	m := &p.Metadata().RowGroups[group].Columns[column].MetaData
	whole := *m
	defer func() { *m = whole }()
	m.DataPageOffset, m.DictionaryPageOffset = at, found.Dictionary
	m.TotalCompressedSize = found.End - at
	if found.Dictionary > 0 {
		m.TotalCompressedSize = found.End - found.Dictionary
	}
	pages := p.RowGroups()[group].ColumnChunks()[column].Pages()
	return pages, pages.SeekToRow(0)
}

func (l *Leaf) fill() error {
	n, err := l.values.ReadValues(l.batch[:])
	l.at, l.n = 0, n
	switch {
	case n > 0 && (err == nil || errors.Is(err, io.EOF)):
		return nil
	case err == nil:
		return io.ErrNoProgress
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close releases the leaf's buffers. Open can be called again.
func (l *Leaf) Close() {
	if l.pages != nil {
		parquet.Release(l.page)
		_ = l.pages.Close() // it does not close the file
	}
	l.pages, l.page, l.values = nil, nil, nil
}

// Pass skips the next page of a flat column without reading it, if it has at most n rows. It returns the number of skipped
// rows.
func (l *Leaf) Pass(n int64) int64 {
	if l.left > 0 || l.isBoolean || l.Span+1 >= len(l.found.Spans) {
		return 0
	}
	span := &l.found.Spans[l.Span+1]
	if span.damage != nil || int64(span.values) > n {
		return 0
	}
	l.Close() // the next page is opened at its own position
	l.Span++
	return int64(span.values)
}

// LeavesOf lists the leaf columns below c, or c itself if it is a leaf.
func LeavesOf(c *parquet.Column) []*parquet.Column {
	if c.Leaf() {
		return []*parquet.Column{c}
	}
	var out []*parquet.Column
	for _, child := range c.Columns() {
		out = append(out, LeavesOf(child)...)
	}
	return out
}
