package typed

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"

	"latentbeam/internal/table/pages"
	"latentbeam/schemas"
)

// Finder reads single rows of parquet files of T by position, with tensors. The zero value is ready. It is safe for concurrent
// use. Reading rows in the order of their file is fastest.
type Finder[T schemas.Row] struct {
	mu   sync.Mutex
	file *pages.Parquet // the file that was read last
	rows *rowsReader
}

// Row returns a row of a file, counted from 1. A *RowError says that the row is damaged.
func (f *Finder[T]) Row(path string, row int64) (out T, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil || f.file.Path != path {
		f.close()
		if f.file, err = pages.Open(path); err != nil {
			return out, err
		}
	}
	err = pages.Guarded(func() error {
		if f.rows == nil || f.rows.row >= row {
			if f.rows != nil {
				f.rows.close()
			}
			if f.rows, err = openRows(f.file, reflect.TypeFor[T](), true); err != nil {
				return err
			}
		}
		if err := f.rows.skip(row - 1 - f.rows.row); err != nil {
			return err
		}
		return f.rows.read(reflect.ValueOf(&out).Elem())
	})
	var bad *RowError
	if err != nil && !errors.As(err, &bad) {
		f.close()
		if errors.Is(err, io.EOF) {
			err = errors.New("the file has fewer rows")
		}
		err = fmt.Errorf("read %s: row %d: %w", path, row, err)
	}
	return out, err
}

// Close releases the finder's file.
func (f *Finder[T]) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close()
}

func (f *Finder[T]) close() {
	if f.rows != nil {
		f.rows.close()
	}
	if f.file != nil {
		f.file.Close()
	}
	f.file, f.rows = nil, nil
}

// skip skips the next n rows. Row groups and pages that are skipped completely are not read.
func (r *rowsReader) skip(n int64) error {
	for n > 0 {
		if r.cursor.Left == 0 {
			groups := r.file.Metadata().RowGroups
			if r.cursor.Group == len(groups) {
				return io.EOF
			}
			if rows := groups[r.cursor.Group].NumRows; rows <= n {
				r.cursor.Group++
				r.row += rows
				n -= rows
				continue
			}
			if err := r.cursor.Open(); err != nil {
				return err
			}
		}
		step := min(n, r.cursor.Left)
		for _, c := range r.columns {
			if err := c.skip(step); err != nil {
				return fmt.Errorf("column %q: %w", c.name, err)
			}
		}
		r.cursor.Left -= step
		r.row += step
		n -= step
	}
	return nil
}

// skip skips the column's values of the next n rows in the open row group. It ignores damage.
func (c *rowColumn) skip(n int64) error {
	for n > 0 {
		if !c.list {
			if passed := c.leaf.Pass(n); passed > 0 {
				n -= passed
				continue
			}
		}
		_, err := c.leaf.Next()
		var damage *pages.DamageError
		if errors.As(err, &damage) {
			err = nil
		}
		for more := c.list; more && err == nil && damage == nil; {
			if more, err = c.leaf.Continues(); err == nil && more {
				_, err = c.leaf.Next()
			}
		}
		if err != nil {
			return err
		}
		n--
	}
	return nil
}
