package typed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/config/document"
	"latentbeam/internal/table/pages"
	"latentbeam/schemas"
)

// Read yields the rows of a parquet table of T, one at a time. It holds at most one page of each column. Without tensors the
// columns of raw bytes are not read and stay nil. Columns are found by name; columns that the file lacks stay zero, so that
// tables of other programs and older versions can be read. But the file must have the first tensor of T with its shape and
// dtype. A row of a damaged page is yielded with the values that could be read and a *RowError, and reading continues. Any
// other error ends the rows; an error about the file's format is a *document.Error.
func Read[T schemas.Row](path string, tensors bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		file, err := pages.Open(path)
		if err != nil {
			var zero T
			yield(zero, err)
			return
		}
		defer file.Close()
		for row, err := range rowsOf[T](file, tensors) {
			if !yield(row, err) {
				return
			}
		}
	}
}

// rowsOf is Read for an open file.
func rowsOf[T schemas.Row](file *pages.Parquet, tensors bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		r, err := openRows(file, reflect.TypeFor[T](), tensors)
		if err != nil {
			yield(zero, err)
			return
		}
		defer r.close()
		for {
			var row T
			err := pages.Guarded(func() error { return r.read(reflect.ValueOf(&row).Elem()) })
			if errors.Is(err, io.EOF) {
				return
			}
			var bad *RowError
			if err != nil && !errors.As(err, &bad) {
				row = zero
				var known *document.Error // it names the file
				if !errors.As(err, &known) {
					err = fmt.Errorf("read %s: row %d: %w", file.Path, r.row, err)
				}
			}
			if !yield(row, err) || err != nil && bad == nil {
				return
			}
		}
	}
}

// MaxNestedValues limits how many values a list or struct of one row may have.
const MaxNestedValues = 1 << 16

// rowsReader reads rows of a struct type from a parquet file.
type rowsReader struct {
	file    *pages.Parquet
	columns []*rowColumn
	cursor  pages.Cursor
	row     int64
}

// rowColumn reads one field of the struct.
type rowColumn struct {
	field  int
	name   string
	leaf   *pages.Leaf
	format Format
	list   bool
}

func openRows(file *pages.Parquet, row reflect.Type, tensors bool) (*rowsReader, error) {
	r := &rowsReader{file: file}
	r.cursor = pages.Cursor{File: file, MaxPage: pages.MaxTensorPageBytes, Leaves: r.leaves}
	if err := pages.Guarded(func() error { return r.assign(row, tensors) }); err != nil {
		return nil, err
	}
	return r, nil
}

func isBlob(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// assign finds the file's column for each field of the row type.
func (r *rowsReader) assign(row reflect.Type, tensors bool) error {
	pos := document.Position{File: r.file.Path}
	needed := "" // name of the first tensor, such as "vae_latent"
	for i := range row.NumField() {
		f := row.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		if tensor, ok := strings.CutSuffix(name, "_bytes"); ok && isBlob(f.Type) && needed == "" {
			needed = tensor
		}
		column := r.file.Root().Column(name)
		if column == nil {
			if needed != "" && strings.HasPrefix(name, needed+"_") && isTensorPart(name, needed) {
				return document.NewError(pos, "no column %q", name).
					WithFix("the columns are: %s", Listed(columnNames(r.file.Root().Columns())))
			}
			continue
		}
		if isBlob(f.Type) && !tensors {
			continue
		}
		leaves := pages.LeavesOf(column)
		c := &rowColumn{field: i, name: name, list: f.Type.Kind() == reflect.Slice && !isBlob(f.Type)}
		if len(leaves) != 1 || (leaves[0].MaxRepetitionLevel() > 0) != c.list {
			return document.NewError(pos, "column %q does not hold one %s a row", name, f.Type)
		}
		c.leaf, c.format = &pages.Leaf{Column: leaves[0]}, FormatOf(r.file, leaves[0])
		r.columns = append(r.columns, c)
	}
	return r.cursor.CheckCodecs()
}

// isTensorPart reports whether a column is one of the three columns of a tensor.
func isTensorPart(name, tensor string) bool {
	part := strings.TrimPrefix(name, tensor)
	return part == "_bytes" || part == "_shape" || part == "_dtype"
}

func columnNames(columns []*parquet.Column) []string {
	var names []string
	for _, c := range columns {
		names = append(names, c.Name())
	}
	return names
}

// leaves yields the leaf of each column that is read.
func (r *rowsReader) leaves(yield func(string, *pages.Leaf) bool) {
	for _, c := range r.columns {
		if !yield(c.name, c.leaf) {
			return
		}
	}
}

// read reads the next row, or returns io.EOF.
func (r *rowsReader) read(row reflect.Value) error {
	if err := r.cursor.Next(); err != nil {
		return err
	}
	r.row++
	var bad *RowError
	for _, c := range r.columns {
		err := c.fill(row.Field(c.field))
		var damage *pages.DamageError
		switch {
		case errors.As(err, &damage):
			tensor := isBlob(row.Field(c.field).Type())
			if bad == nil || bad.Tensor && !tensor {
				bad = &RowError{Source: fmt.Sprintf("%s:row %d", r.file.Path, r.row), Column: c.name,
					Problem: damage.Error(), Fix: pages.CopyFix, Tensor: tensor}
			}
		case err != nil:
			return fmt.Errorf("column %q: %w", c.name, err)
		}
	}
	if bad != nil {
		return bad
	}
	return nil
}

// fill reads the column's next value, or for a list all values of the row. A null leaves the field zero.
func (c *rowColumn) fill(into reflect.Value) error {
	v, err := c.leaf.Next()
	if err != nil {
		return err
	}
	if !c.list {
		if v.IsNull() {
			return nil
		}
		return c.set(into, v)
	}
	items := reflect.MakeSlice(into.Type(), 0, 4)
	for more := true; more; {
		if !v.IsNull() {
			item := reflect.New(into.Type().Elem()).Elem()
			if err := c.set(item, v); err != nil {
				return err
			}
			items = reflect.Append(items, item)
		}
		if items.Len() > MaxNestedValues {
			return fmt.Errorf("more than %d values in one row", MaxNestedValues)
		}
		if more, err = c.leaf.Continues(); err == nil && more {
			v, err = c.leaf.Next()
		}
		if err != nil {
			return err
		}
	}
	into.Set(items)
	return nil
}

func (c *rowColumn) set(into reflect.Value, v parquet.Value) error {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	if isBlob(into.Type()) {
		if k := v.Kind(); k != parquet.ByteArray && k != parquet.FixedLenByteArray {
			return errors.New("it does not hold bytes")
		}
		into.SetBytes(bytes.Clone(v.ByteArray()))
		return nil
	}
	cell := c.format.Value(v)
	switch into.Kind() {
	case reflect.String:
		if cell.Kind != TextValue {
			return fmt.Errorf("%s is not a text", cell.KindName())
		}
		into.SetString(cell.Text)
	case reflect.Int64:
		n, err := cell.Integer()
		into.SetInt(n)
		return err
	case reflect.Float64:
		n, err := cell.Real()
		into.SetFloat(n)
		return err
	default:
		return fmt.Errorf("the program cannot read columns into %s", into.Type())
	}
	return nil
}

func (r *rowsReader) close() {
	for _, c := range r.columns {
		c.leaf.Close()
	}
}
