package read

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/table/pages"
	"latentbeam/internal/table/typed"
)

// nest prepares a column for nestedJSON.
func (c *parquetColumn) nest(file *pages.Parquet, column *parquet.Column) {
	for _, leaf := range c.leaves {
		c.halves = append(c.halves, file.IsHalf(leaf.Column))
	}
	var node parquet.Node = column
	if slices.Contains(c.halves, true) {
		node = widened{column, file}
	}
	c.nested = parquet.NewSchema(c.name, parquet.Group{c.name: node})
}

// widened is a column with half floats replaced by doubles, because the library has no type for half floats.
type widened struct {
	*parquet.Column
	file *pages.Parquet
}

// Type implements parquet.Node.
func (w widened) Type() parquet.Type {
	if w.Leaf() && w.file.IsHalf(w.Column) {
		return parquet.DoubleType
	}
	return w.Column.Type()
}

// Fields implements parquet.Node.
func (w widened) Fields() (out []parquet.Field) {
	for _, child := range w.Columns() {
		out = append(out, widened{child, w.file})
	}
	return out
}

// GoType implements parquet.Node; the library calls it for maps.
func (w widened) GoType() reflect.Type {
	var fields []reflect.StructField
	for i, child := range w.Fields() {
		fields = append(fields, reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: child.GoType(),
			Tag: reflect.StructTag("parquet:" + strconv.Quote(child.Name()))})
	}
	t := reflect.StructOf(fields)
	if w.Leaf() {
		t = parquet.Leaf(w.Type()).GoType()
	}
	switch {
	case w.Optional():
		return reflect.PointerTo(t)
	case w.Repeated():
		return reflect.SliceOf(t)
	}
	return t
}

// nestedJSON builds a row's value of a column of lists, structs or maps.
func (c *parquetColumn) nestedJSON() (text []byte, fault string, err error) {
	var row parquet.Row
	var damage *pages.DamageError // of one leaf; the other leaves still skip the row
	for i, leaf := range c.leaves {
		for more := true; more; {
			v, err := leaf.Next()
			if errors.As(err, &damage) {
				break
			}
			if err != nil {
				return nil, "", err
			}
			if c.halves[i] && !v.IsNull() {
				v = parquet.DoubleValue(typed.Format{Kind: typed.HalfLeaf}.Real(v)).Level(v.RepetitionLevel(), v.DefinitionLevel(), i)
			}
			if len(row) < typed.MaxNestedValues {
				row = append(row, v.Clone().Level(v.RepetitionLevel(), v.DefinitionLevel(), i))
			}
			if more, err = leaf.Continues(); err != nil {
				return nil, "", err
			}
		}
	}
	if damage != nil {
		return nil, "", damage
	}
	if len(row) >= typed.MaxNestedValues {
		return []byte("null"), fmt.Sprintf("more than %d values in one row", typed.MaxNestedValues), nil
	}
	out := map[string]any{}
	if err := c.nested.Reconstruct(&out, row); err != nil {
		return nil, "", err
	}
	if text, err = json.Marshal(out[c.name]); err != nil {
		return []byte("null"), err.Error(), nil
	}
	return text, "", nil
}
