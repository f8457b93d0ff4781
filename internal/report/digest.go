package report

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"

	"latentbeam/internal/ledger"
	"latentbeam/stages"
)

// Digest names the rows of an input with their keys and outcomes, and what the report shows of the job. A
// complete report of the same digest has nothing to be written anew.
type Digest struct {
	hash hash.Hash
	row  []byte
}

// Digest begins the digest of the job's input.
func (j *Job) Digest() *Digest {
	d := &Digest{hash: sha256.New()}
	d.row = appendValue(d.row, reflect.ValueOf(j.Facts))
	for _, k := range slices.Sorted(maps.Keys(j.Keep)) {
		d.row = fmt.Appendf(d.row, "%s %v\n", k, j.Keep[k])
	}
	d.row = binary.LittleEndian.AppendUint64(d.row, uint64(j.RowsPerFile))
	if j.Names != nil {
		d.row = fmt.Appendf(d.row, "names %v\n", *j.Names)
	}
	if j.Alike != nil {
		d.row = fmt.Appendf(d.row, "alike %+v\n", *j.Alike)
	}
	d.hash.Write(d.row)
	return d
}

// Add adds the next row.
func (d *Digest) Add(e *stages.Element, status ledger.Status) {
	d.row = appendRow(d.row[:0], e)
	d.add(e, status)
}

// add adds the row whose appendRow is in d.row.
func (d *Digest) add(e *stages.Element, status ledger.Status) {
	d.hash.Write(d.row)
	tail := appendText(append(d.row, byte(status)), e.Given.Source)
	if e.Failed != nil {
		tail = appendText(tail, e.Failed.Message)
	}
	d.hash.Write(tail[len(d.row):])
}

// Sum is the digest of the rows so far, in hex.
func (d *Digest) Sum() string { return hex.EncodeToString(d.hash.Sum(nil)) }

// appendRow writes all that tables show of a row and that is not in its result. Its place in the input is
// left out: tensors that are the same need not be written again because a line went before them.
func appendRow(b []byte, e *stages.Element) []byte {
	row, given := e.Row, e.Given
	row.Source, given.Source = "", ""
	b = append(b, e.Key[:]...)
	b = appendValue(b, reflect.ValueOf(&row).Elem())
	b = appendValue(b, reflect.ValueOf(&given).Elem())
	return appendLater(appendLater(b, "row.", reflect.ValueOf(&row).Elem()), "given.", reflect.ValueOf(&given).Elem())
}

// laterTag marks the fields that rows have had since later releases. They enter where a row has them, so that a new
// release writes no table of an earlier one anew.
const laterTag = "later"

// appendLater writes the later fields that a struct has, each behind its name.
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

// appendValue writes a value so that no two values share a spelling: structs field by field, but for later ones, so
// that a new field enters by itself.
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
	panic(fmt.Sprintf("report: a digest cannot take a %s", v.Type()))
}

func appendText(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}
