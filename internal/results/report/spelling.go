package report

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"sync"
)

// laterTag marks fields that were added to rows in later releases. They are part of a digest only if they are not zero, so that a
// new release does not rewrite the tables of an earlier one. noTag marks fields that are no part of a digest.
const (
	laterTag = "later"
	noTag    = "-"
)

// appendLater appends the name and the value of each later field that is not zero.
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

// fieldsByType caches the fields of structs by reflect.Type. Without it, reflection took a third of the time of a job without models.
var fieldsByType sync.Map

// fieldsOf returns the fields of a struct type that are part of a digest.
func fieldsOf(t reflect.Type) []field {
	if fields, ok := fieldsByType.Load(t); ok {
		return fields.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		if tag := f.Tag.Get("digest"); tag != noTag {
			fields = append(fields, field{i, f.Name, tag == laterTag})
		}
	}
	fieldsByType.Store(t, fields)
	return fields
}

// appendValue appends a value. It appends all fields of a struct except later ones, so a new field is included automatically.
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
	panic(fmt.Sprintf("a digest cannot contain a value of type %s", v.Type()))
}

// appendText appends the length of a text and the text.
func appendText(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}
