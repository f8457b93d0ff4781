package table

import (
	"errors"
	"io"

	"github.com/parquet-go/parquet-go"
)

// leafBatch is how many values of a column are taken out of a page at a time.
const leafBatch = 256

// leafReader reads the values of one leaf column of a row group, page by page.
type leafReader struct {
	leaf   *parquet.Column
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader // of page, nil behind its end
	left   int64               // values that the guard has checked and that are not in batch yet
	batch  [leafBatch]parquet.Value
	at, n  int

	isBoolean bool
	booleans  []byte // the values, where they are booleans
}

// open begins to read a row group, of whose column the guard has checked so many values, and decoded the
// booleans.
func (l *leafReader) open(group parquet.RowGroup, values int64, booleans []byte) {
	l.close()
	l.pages = group.ColumnChunks()[l.leaf.Index()].Pages()
	l.left, l.at, l.n = values, 0, 0
	l.isBoolean, l.booleans = isFlatBoolean(l.leaf), booleans
}

// next returns the next value. It is valid until the next call.
func (l *leafReader) next() (parquet.Value, error) {
	if l.isBoolean {
		return l.nextBoolean()
	}
	for l.at == l.n {
		if err := l.fill(); err != nil {
			return parquet.Value{}, err
		}
	}
	l.at++
	return l.batch[l.at-1], nil
}

func (l *leafReader) nextBoolean() (parquet.Value, error) {
	if len(l.booleans) == 0 {
		return parquet.Value{}, io.ErrUnexpectedEOF
	}
	v := l.booleans[0]
	l.booleans = l.booleans[1:]
	if v == isNull {
		return parquet.Value{}, nil
	}
	return parquet.BooleanValue(v == isTrue), nil
}

// continues tells whether the next value belongs to the same row as the one before.
func (l *leafReader) continues() (bool, error) {
	for l.at == l.n {
		if l.left == 0 {
			return false, nil
		}
		if err := l.fill(); err != nil {
			return false, err
		}
	}
	return l.batch[l.at].RepetitionLevel() > 0, nil
}

func (l *leafReader) fill() error {
	if l.left == 0 {
		return io.ErrUnexpectedEOF
	}
	if l.values == nil {
		parquet.Release(l.page)
		l.page = nil
		page, err := l.pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		l.page, l.values = page, page.Values()
	}
	n, err := l.values.ReadValues(l.batch[:])
	l.at, l.n = 0, int(min(int64(n), l.left))
	l.left -= int64(l.n)
	switch {
	case errors.Is(err, io.EOF):
		l.values = nil // the batch points into the page, which is released with the next one
		return nil
	case err == nil && n == 0:
		return io.ErrNoProgress
	}
	return err
}

func (l *leafReader) close() {
	if l.pages != nil {
		parquet.Release(l.page)
		_ = l.pages.Close() // it closes no file
	}
	l.pages, l.page, l.values = nil, nil, nil
}
