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

// Digest is a digest of everything that a report shows: facts of the job, and the rows of the input with their keys and
// outcomes. If a complete report has the same digest, it need not be written again.
type Digest struct {
	hash hash.Hash
	row  []byte
}

// Digest returns a digest that contains the facts of the job and no rows yet.
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
		js, _ := json.Marshal(j.Limits) // never fails: numbers
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

// add adds a row for which d.row already contains the output of appendRow.
func (d *Digest) add(e *stages.Element, status ledger.Status) {
	d.hash.Write(d.row)
	tail := appendText(append(d.row, byte(status)), e.Given.Source)
	if e.Failed != nil {
		tail = appendText(tail, e.Failed.Message)
	}
	d.hash.Write(tail[len(d.row):])
}

// Sum returns the digest of the rows so far in hex.
func (d *Digest) Sum() string { return hex.EncodeToString(d.hash.Sum(nil)) }

// appendRow appends everything that tables show of a row except its result and its place in the input. The place is
// left out so that tables of tensors are not rewritten when a row is inserted before others.
func appendRow(b []byte, e *stages.Element) []byte {
	row, given := e.Row, e.Given
	row.Source, given.Source = "", ""
	b = append(b, e.Key[:]...)
	b = appendValue(b, reflect.ValueOf(&row).Elem())
	b = appendValue(b, reflect.ValueOf(&given).Elem())
	return appendLater(appendLater(b, "row.", reflect.ValueOf(&row).Elem()), "given.", reflect.ValueOf(&given).Elem())
}
