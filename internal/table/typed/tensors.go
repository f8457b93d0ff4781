package typed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/table/pages"
	"latentbeam/schemas"
)

// Tensors reads single tensors from one of our own tables, by the number of the row. It is not safe for concurrent use. Reading
// rows in order is fastest.
type Tensors struct {
	file  *pages.Parquet
	guard pages.Guard
	ends  []int64                  // for each row group: number of the row after its last row
	open  map[string]*tensorColumn // columns being read
}

// tensorColumn is a position in a column chunk.
type tensorColumn struct {
	group  int
	next   int64         // row of the group that values yields next
	single *pages.Single // checks a page before it is read
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
}

// OpenTensors opens the table in file; path is its name for people. Close closes the file. If opening fails, the file is closed
// too.
func OpenTensors(path string, file store.Reader) (*Tensors, error) {
	p, err := pages.OpenReader(path, file)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("open table %s: %w", path, err)
	}
	t := &Tensors{file: p, guard: pages.Guard{File: p, MaxPage: pages.MaxTensorPageBytes}, open: map[string]*tensorColumn{}}
	end := int64(0)
	for _, g := range p.RowGroups() {
		end += g.NumRows()
		t.ends = append(t.ends, end)
	}
	return t, nil
}

// Path returns the path with which the table was opened.
func (t *Tensors) Path() string { return t.file.Path }

// Rows returns the number of rows.
func (t *Tensors) Rows() int64 {
	if len(t.ends) == 0 {
		return 0
	}
	return t.ends[len(t.ends)-1]
}

// keyRow has the columns that Keys reads.
type keyRow struct {
	Key string `parquet:"key"`
}

// Schema and ByteSize make keyRow a schemas.Row; it is only read.
func (keyRow) Schema() string { return "" }
func (keyRow) ByteSize() int  { return 0 }

// Keys yields the values of the column "key", row by row.
func (t *Tensors) Keys() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for row, err := range rowsOf[keyRow](t.file, false) {
			if !yield(row.Key, err) {
				return
			}
		}
	}
}

// Read returns the bytes of a column in row number row, from 0.
func (t *Tensors) Read(column string, row int64) (data []byte, err error) {
	err = pages.Guarded(func() error {
		data, err = t.read(column, row)
		return err
	})
	if err != nil { // a damaged page loses only its rows: the next read opens the column again
		t.open[column].close()
		delete(t.open, column)
		return nil, fmt.Errorf("read table %s: row %d: column %q: %w", t.file.Path, row+1, column, err)
	}
	return data, nil
}

func (t *Tensors) read(column string, row int64) ([]byte, error) {
	leaf := t.file.Root().Column(column)
	if leaf == nil || !leaf.Leaf() || row < 0 || row >= t.Rows() {
		return nil, fmt.Errorf("there is no such value among %d rows", t.Rows())
	}
	group := sort.Search(len(t.ends), func(i int) bool { return t.ends[i] > row })
	if group > 0 {
		row -= t.ends[group-1]
	}
	c := t.open[column]
	if c == nil || c.group != group {
		c.close()
		c = &tensorColumn{group: group}
		t.open[column] = c
		var err error
		if c.single, err = t.guard.Single(group, leaf); err != nil {
			return nil, err
		}
		chunk := t.file.RowGroups()[group].ColumnChunks()[leaf.Index()]
		if _, err := chunk.OffsetIndex(); err != nil { // with it, seeking uses the index
			return nil, err
		}
		c.pages = chunk.Pages()
	}
	return c.read(row)
}

// read moves to a row of the group and returns its value.
func (c *tensorColumn) read(row int64) ([]byte, error) {
	if c.values == nil || row != c.next {
		if err := c.pages.SeekToRow(row); err != nil {
			return nil, err
		}
		c.release()
	}
	c.next = row + 1
	var v [1]parquet.Value
	for {
		if c.values == nil {
			if err := c.single.Check(row); err != nil {
				return nil, err
			}
			page, err := c.pages.ReadPage()
			if err != nil {
				return nil, err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(v[:])
		if n == 1 {
			return bytes.Clone(v[0].ByteArray()), nil
		}
		if !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("no value: %w", err)
		}
		c.release()
	}
}

func (c *tensorColumn) release() {
	parquet.Release(c.page)
	c.page, c.values = nil, nil
}

func (c *tensorColumn) close() {
	if c != nil {
		if c.page != nil {
			c.release()
		}
		if c.pages != nil {
			_ = c.pages.Close() // it does not close the file
		}
	}
}

// Close closes the file.
func (t *Tensors) Close() error {
	for _, c := range t.open {
		c.close()
	}
	t.guard.Close()
	return t.file.Close()
}

// RowsOf yields the rows of one of our own tables, without tensors; path is its name for people. It does not close the file.
func RowsOf[T schemas.Row](path string, file store.Reader) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		p, err := pages.OpenReader(path, file)
		if err != nil {
			var zero T
			yield(zero, err)
			return
		}
		for row, err := range rowsOf[T](p, false) {
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}
