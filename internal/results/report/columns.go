package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/table/write"
	"latentbeam/schemas"
)

// maxColumns limits the columns that an input adds to a table. Further columns are only in the column "extra".
const maxColumns = 256

// readingPrefix is the prefix of the columns of readings. It is necessary because a scored job has a carried column of the same
// name.
const readingPrefix = "measured_"

// Columns are the columns of a table for the carried columns and the readings of its rows, with their names and types.
type Columns struct {
	list  []write.Column
	index map[string]int  // index in list, by "carried NAME" or "reading NAME"
	used  map[string]bool // names in use, in lower case
	table reflect.Type    // type of the table's rows
	fixed []string        // values of the first columns, equal in all rows
}

// ColumnsOf returns no columns yet, for a table with rows of the type Row.
func ColumnsOf[Row schemas.Row]() Columns { return Columns{table: reflect.TypeFor[Row]()} }

// List returns the columns in the order of their first appearance.
func (c *Columns) List() []write.Column { return c.list }

// addFixed adds a column with the same text in all rows. Call it before Learn.
func (c *Columns) addFixed(name, text string) {
	c.add("fixed ", name, name, write.Text)
	c.fixed = append(c.fixed, text)
}

// Learn adds the carried columns of a row, a JSON object or "", and its readings. It widens the types of known columns if
// necessary.
func (c *Columns) Learn(extra string, readings map[string]string) error {
	carried, err := schemas.Carried(extra)
	if err != nil {
		return err
	}
	for _, one := range carried {
		c.add("carried ", one.Name, one.Name, typeOf(one.Value))
	}
	if len(readings) == 0 { // most rows have none
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(readings)) {
		c.add("reading ", name, readingPrefix+name, typeOfReading(name, readings[name]))
	}
	return nil
}

// add adds a column, or widens the type of a known one.
func (c *Columns) add(kind, name, column string, t write.ColumnType) {
	i, known := c.index[kind+name]
	if known {
		c.list[i].Type = commonType(c.list[i].Type, t)
		return
	}
	if len(c.list) == maxColumns {
		return
	}
	if c.index == nil {
		c.index, c.used = map[string]int{}, columnNames(c.table)
	}
	c.index[kind+name] = len(c.list)
	c.list = append(c.list, write.Column{Name: c.uniqueName(write.ColumnName(column)), Type: t})
}

// uniqueName returns name, changed if another column has it. Names that differ only in case count as equal, because many readers
// ignore case.
func (c *Columns) uniqueName(name string) string {
	name = cmp.Or(name, "unnamed")
	wanted := name
	if c.used[strings.ToLower(name)] {
		wanted = "input_" + name
	}
	for n := 2; c.used[strings.ToLower(wanted)]; n++ {
		wanted = fmt.Sprintf("input_%s_%d", name, n)
	}
	c.used[strings.ToLower(wanted)] = true
	return wanted
}

// columnNames returns the names of the columns of a row type.
func columnNames(row reflect.Type) map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(row) {
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		names[name] = true
	}
	return names
}

// Values returns the values of a row, in the order of the columns; nil: null.
func (c *Columns) Values(extra string, readings map[string]string) ([]any, error) {
	out := make([]any, len(c.list))
	for i := range c.fixed {
		out[i] = &c.fixed[i]
	}
	carried, err := schemas.Carried(extra)
	if err != nil {
		return nil, err
	}
	for _, one := range carried {
		if i, ok := c.index["carried "+one.Name]; ok {
			if out[i], err = carriedValue(one, c.list[i].Type); err != nil {
				return nil, fmt.Errorf("column %q: %w", one.Name, err)
			}
		}
	}
	for name, text := range readings {
		if i, ok := c.index["reading "+name]; ok {
			if out[i], err = readingValue(text, c.list[i].Type); err != nil {
				return nil, fmt.Errorf("reading %q: %w", name, err)
			}
		}
	}
	return out, nil
}

// typeOf returns the column type of a JSON value. Objects and lists are stored as text.
func typeOf(value json.RawMessage) write.ColumnType {
	switch value[0] {
	case 'n':
		return write.Nothing
	case 't', 'f':
		return write.Boolean
	case '"', '{', '[':
		return write.Text
	}
	var n int64
	if json.Unmarshal(value, &n) == nil {
		return write.Integer
	}
	var f float64
	if json.Unmarshal(value, &f) == nil {
		return write.Real
	}
	return write.Text // a number outside the range of the other types
}

// typeOfReading returns the column type of a reading. The reading prompt is always text, even if it looks like a number.
func typeOfReading(name, text string) write.ColumnType {
	switch {
	case name == "prompt" || text == "":
		return write.Text
	case text == "nan" || text == "inf" || text == "-inf": // the spelling of Python
		return write.Real
	case (text[0] == '-' || '0' <= text[0] && text[0] <= '9') && json.Valid([]byte(text)):
		return typeOf(json.RawMessage(text))
	}
	return write.Text
}

// readingValue converts a reading to the type of its column.
func readingValue(text string, t write.ColumnType) (any, error) {
	switch t {
	case write.Integer:
		n, err := strconv.ParseInt(text, 10, 64)
		return &n, err
	case write.Real:
		f, err := strconv.ParseFloat(text, 64)
		return &f, err
	}
	return &text, nil
}

// commonType returns the type that can hold values of both types.
func commonType(a, b write.ColumnType) write.ColumnType {
	numbers := func(t write.ColumnType) bool { return t == write.Integer || t == write.Real }
	switch {
	case a == b || b == write.Nothing:
		return a
	case a == write.Nothing:
		return b
	case numbers(a) && numbers(b):
		return write.Real
	}
	return write.Text
}

// carriedValue converts a carried value to the type of its column; nil: null.
func carriedValue(c schemas.CarriedColumn, t write.ColumnType) (any, error) {
	if typeOf(c.Value) == write.Nothing {
		return nil, nil
	}
	switch t {
	case write.Boolean:
		return parsed[bool](c.Value)
	case write.Integer:
		return parsed[int64](c.Value)
	case write.Real:
		return parsed[float64](c.Value)
	}
	text := c.Text()
	return &text, nil
}

// parsed returns a pointer to the value of type T.
func parsed[T any](value json.RawMessage) (any, error) {
	v := new(T)
	err := json.Unmarshal(value, v)
	return v, err
}
