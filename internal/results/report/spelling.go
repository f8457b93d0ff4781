package report

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"sync"
)

// laterTag marks the fields that rows have had since later releases. They enter where a row has them, so that a new
// release writes no table of an earlier one anew.
const laterTag = "later"

// appendLater appends the later fields that a struct has, each behind its name.
func appendLater(b []byte, prefix string, v reflect.Value) []byte {
	for _, f := range fieldsOf(v.Type()) {
		if f.later && !v.Field(f.index).IsZero() {
			b = appendValue(appendText(b, prefix+f.name), v.Field(f.index))
		}
	}
	return b
}

// field is a field of a struct.
type field struct {
	index int
	name  string
	later bool
}

// known has the fields of structs by reflect.Type. To ask reflect for each row took a third of a job without models.
var known sync.Map

func fieldsOf(t reflect.Type) []field {
	if fields, ok := known.Load(t); ok {
		return fields.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		fields = append(fields, field{i, f.Name, f.Tag.Get("digest") == laterTag})
	}
	known.Store(t, fields)
	return fields
}

// appendValue appends a value: structs field by field, but for later ones, so that a new field enters by itself.
func appendValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			if !f.later {
				b = appendValue(b, v.Field(f.index))
			}
		}
		return b
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		return appendValue(append(b, 1), v.Elem())
	case reflect.String:
		return appendText(b, v.String())
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int64:
		return binary.LittleEndian.AppendUint64(b, uint64(v.Int()))
	case reflect.Float64:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Float()))
	}
	panic(fmt.Sprintf("spelling: a digest cannot take a %s", v.Type()))
}

// appendText appends a text behind its length.
func appendText(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}
