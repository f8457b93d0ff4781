package pages

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// leafBatch is how many values of a column are taken out of a page at a time.
const leafBatch = 256

// Leaf reads the values of one leaf column of a row group, page by page. Instead of each row of a damaged page
// it returns a *DamageError, and goes on with the next page.
type Leaf struct {
	Column *parquet.Column
	file   *Parquet
	group  int
	found  Chunk // by the guard

	Span   int           // the page that values come from; -1: none yet
	left   int           // values of the page that are not returned yet; its rows where it is damaged
	damage *DamageError  // why the page cannot be read, nil where it can
	pages  parquet.Pages // stands before the next page; nil: begin anew there
	page   parquet.Page
	values parquet.ValueReader // of page
	batch  [leafBatch]parquet.Value
	at, n  int

	isBoolean bool
	booleans  []byte // the values, where they are booleans
}

// DamageError is why the rows of one page cannot be read.
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

// Open begins to read a row group, of whose column the guard has found these pages, and decoded the booleans.
func (l *Leaf) Open(file *Parquet, group int, found Chunk, booleans []byte) {
	l.Close()
	l.file, l.group, l.found = file, group, found
	l.Span, l.left, l.at, l.n, l.damage = -1, 0, 0, 0, nil
	l.isBoolean, l.booleans = isFlatBoolean(l.Column), booleans
}

// Next returns the next value. It is valid until the next call.
func (l *Leaf) Next() (parquet.Value, error) {
	for l.left == 0 {
		if err := l.turn(); err != nil {
			return parquet.Value{}, err
		}
	}
	l.left--
	switch {
	case l.isBoolean: // a damaged page has room in booleans, too
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

// Continues tells whether the next value belongs to the same row as the one before.
func (l *Leaf) Continues() (bool, error) {
	for l.left == 0 {
		if l.Span+1 == len(l.found.Spans) {
			return false, nil
		}
		if err := l.turn(); err != nil {
			return false, err
		}
	}
	if l.damage != nil { // a page whose rows are known begins with a row
		return false, nil
	}
	if l.at == l.n {
		if err := l.fill(); err != nil {
			return false, err
		}
	}
	return l.batch[l.at].RepetitionLevel() > 0, nil
}

// turn goes to the next page.
func (l *Leaf) turn() error {
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

// readPage lets the library decode a page, and looks whether all its values are there.
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

// pagesFrom begins to read a column chunk at the data page at an offset. The library has no other way to pass over a
// page than to be told that the chunk begins behind it.
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

// Close gives back what the leaf holds. Open begins anew.
func (l *Leaf) Close() {
	if l.pages != nil {
		parquet.Release(l.page)
		_ = l.pages.Close() // it closes no file
	}
	l.pages, l.page, l.values = nil, nil, nil
}

// Pass passes over the next page of a flat column without reading it, if it has at most n rows, and returns how many.
func (l *Leaf) Pass(n int64) int64 {
	if l.left > 0 || l.isBoolean || l.Span+1 >= len(l.found.Spans) {
		return 0
	}
	span := &l.found.Spans[l.Span+1]
	if span.damage != nil || int64(span.values) > n {
		return 0
	}
	l.Close() // the next page is read from its own place
	l.Span++
	return int64(span.values)
}

// LeavesOf lists the columns with values below c, itself where it is one.
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
