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

// maxColumns bounds the columns that an input adds to a table. Those beyond are in its column "extra" alone.
const maxColumns = 256

// readingPrefix is put before the name of a reading: a job that is scored has a column of that name, too.
const readingPrefix = "measured_"

// Columns are what the carried columns and the readings of all rows become in a table: their names and types.
type Columns struct {
	list  []write.Column
	index map[string]int // of "carried NAME" or "reading NAME" in list
	taken map[string]bool
	table reflect.Type // of a row of the table
	fixed []string     // what the first columns have in all rows
}

// ColumnsOf is the columns of a table whose rows are of a type.
func ColumnsOf[Row schemas.Row]() Columns { return Columns{table: reflect.TypeFor[Row]()} }

// List returns the columns, in the order in which they were seen first.
func (c *Columns) List() []write.Column { return c.list }

// fix adds a column of one text for all rows. It is called before See.
func (c *Columns) fix(name, text string) {
	c.add("fixed ", name, name, write.Text)
	c.fixed = append(c.fixed, text)
}

// See takes the types of a row's carried columns, a JSON object or "", and of its readings.
func (c *Columns) See(extra string, readings map[string]string) error {
	carried, err := schemas.Carried(extra)
	if err != nil {
		return err
	}
	for _, one := range carried {
		c.add("carried ", one.Name, one.Name, typeOf(one.Value))
	}
	if len(readings) == 0 { // as of most rows
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(readings)) {
		c.add("reading ", name, readingPrefix+name, typeOfReading(name, readings[name]))
	}
	return nil
}

func (c *Columns) add(kind, name, column string, t write.ColumnType) {
	i, known := c.index[kind+name]
	if known {
		c.list[i].Type = join(c.list[i].Type, t)
		return
	}
	if len(c.list) == maxColumns {
		return
	}
	if c.index == nil {
		c.index, c.taken = map[string]int{}, taken(c.table)
	}
	c.index[kind+name] = len(c.list)
	c.list = append(c.list, write.Column{Name: c.free(write.ColumnName(column)), Type: t})
}

// free is the name, with something before or behind it where another column has it. Many readers know no case.
func (c *Columns) free(name string) string {
	name = cmp.Or(name, "unnamed")
	wanted := name
	if c.taken[strings.ToLower(name)] {
		wanted = "input_" + name
	}
	for n := 2; c.taken[strings.ToLower(wanted)]; n++ {
		wanted = fmt.Sprintf("input_%s_%d", name, n)
	}
	c.taken[strings.ToLower(wanted)] = true
	return wanted
}

// taken are the names that a table has itself.
func taken(row reflect.Type) map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(row) {
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		names[name] = true
	}
	return names
}

// Values are those of a row, in the order of the columns.
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
			if out[i], err = value(one, c.list[i].Type); err != nil {
				return nil, fmt.Errorf("column %q: %w", one.Name, err)
			}
		}
	}
	for name, text := range readings {
		if i, ok := c.index["reading "+name]; ok {
			if out[i], err = reading(text, c.list[i].Type); err != nil {
				return nil, fmt.Errorf("reading %q: %w", name, err)
			}
		}
	}
	return out, nil
}

// typeOf is the type of a JSON value. Objects and lists are texts.
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
	return write.Text // a number that no column holds
}

// typeOfReading is the type of a reading. A prompt is a text, even if it is a number.
func typeOfReading(name, text string) write.ColumnType {
	switch {
	case name == "prompt" || text == "":
		return write.Text
	case text == "nan" || text == "inf" || text == "-inf": // as Python writes them
		return write.Real
	case (text[0] == '-' || '0' <= text[0] && text[0] <= '9') && json.Valid([]byte(text)):
		return typeOf(json.RawMessage(text))
	}
	return write.Text
}

// reading is a reading as a column of the type has it.
func reading(text string, t write.ColumnType) (any, error) {
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

// join is the type that holds values of both.
func join(a, b write.ColumnType) write.ColumnType {
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

// value is a carried value as a column of the type has it; nil is null.
func value(c schemas.CarriedColumn, t write.ColumnType) (any, error) {
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

func parsed[T any](value json.RawMessage) (any, error) {
	v := new(T)
	err := json.Unmarshal(value, v)
	return v, err
}
