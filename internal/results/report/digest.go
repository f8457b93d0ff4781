package report

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"reflect"
	"slices"

	"latentbeam/internal/storage/ledger"

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
	if len(j.Limits) > 0 {
		js, _ := json.Marshal(j.Limits) // numbers
		d.row = fmt.Appendf(d.row, "limits %s\n", js)
	}
	if j.Scores {
		d.row = fmt.Appendf(d.row, "scores\n")
	}
	if j.Where != nil {
		d.row = fmt.Appendf(d.row, "where %v\n", j.Where)
	}
	if j.Select != nil {
		d.row = fmt.Appendf(d.row, "select %+v\n", *j.Select)
	}
	if len(j.Looks) > 0 {
		d.row = fmt.Appendf(d.row, "looks %q\n", j.Looks)
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
