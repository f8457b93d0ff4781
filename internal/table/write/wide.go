package write

import (
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"

	"github.com/parquet-go/parquet-go"

	"latentbeam/schemas"
)

// ColumnType is the type of a column from the job's input.
type ColumnType int

// The types. A column with several types is Text; integers and reals together are Real.
const (
	Nothing ColumnType = iota // no value yet
	Boolean
	Integer
	Real
	Text
)

// goTypes are the types of the values; nil is null.
var goTypes = map[ColumnType]reflect.Type{
	Boolean: reflect.TypeFor[*bool](), Integer: reflect.TypeFor[*int64](), Real: reflect.TypeFor[*float64](),
	Nothing: reflect.TypeFor[*string](), Text: reflect.TypeFor[*string](),
}

// Column is a column after those of the row type.
type Column struct {
	Name string // use ColumnName to make one that every reader accepts
	Type ColumnType
}

// Wide is a row with values for additional columns, in their order: *bool, *int64, *float64 or *string by the column's type,
// nil for null.
type Wide[T schemas.Row] struct {
	Row    T
	Values []any
}

// Schema returns the name of the row's table.
func (r Wide[T]) Schema() string { return r.Row.Schema() }

// ByteSize returns about how many bytes the row needs in a file.
func (r Wide[T]) ByteSize() int {
	n := r.Row.ByteSize() + 8*len(r.Values)
	for _, v := range r.Values {
		if s, ok := v.(*string); ok && s != nil {
			n += len(*s)
		}
	}
	return n
}

// ColumnName returns name without control characters and without characters that separate the options of a schema.
func ColumnName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune("\",`\\", r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
}

// WriteWide is Write for rows with additional columns.
func WriteWide[T schemas.Row](w io.Writer, columns []Column, rows iter.Seq2[Wide[T], error],
	opts Options) (int64, error) {
	layout := newLayout(reflect.TypeFor[T](), columns)
	var row T
	out := newWriter[any](w, row.Schema(), parquet.SchemaOf(reflect.New(layout.row).Elem().Interface()), opts)
	for row, err := range rows {
		if err == nil && len(row.Values) != len(columns) {
			err = fmt.Errorf("%s: a row has %d values for %d columns", row.Schema(), len(row.Values), len(columns))
		}
		if err == nil {
			err = out.write(layout.value(row.Row, row.Values), row.ByteSize())
		}
		if err != nil {
			return out.rows, err
		}
	}
	return out.rows, out.Close()
}

// layout is a struct type with the fields of a row, followed by the additional columns.
type layout struct {
	row   reflect.Type
	fixed [][]int // position of each field of the row
}

func newLayout(row reflect.Type, columns []Column) layout {
	var l layout
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(row) {
		if f.Anonymous {
			continue // its fields follow
		}
		l.fixed = append(l.fixed, f.Index)
		fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag})
	}
	for i, c := range columns {
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("Column", i), Type: goTypes[c.Type],
			Tag: reflect.StructTag(fmt.Sprintf("parquet:%q", c.Name+",optional"))})
	}
	l.row = reflect.StructOf(fields)
	return l
}

// value returns a row of the layout's type.
func (l layout) value(row any, values []any) any {
	from, to := reflect.ValueOf(row), reflect.New(l.row).Elem()
	for i, index := range l.fixed {
		to.Field(i).Set(from.FieldByIndex(index))
	}
	for i, v := range values {
		if v != nil {
			to.Field(len(l.fixed) + i).Set(reflect.ValueOf(v))
		}
	}
	return to.Interface()
}
