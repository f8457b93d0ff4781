// Package forecast predicts a run: how its rows are divided among devices, its time, and its space on disk. `plan`,
// a dry run and the report of a run use it.
package forecast

import (
	"encoding/binary"
	"slices"

	"latentbeam/internal/engine/host"
	"latentbeam/internal/system"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// maxBuckets limits the shapes that a plan counts separately. Further shapes are counted with the last one.
const maxBuckets = 64

// Work counts the rows that a run computes.
type Work struct {
	New int64
	// Buckets counts the rows of each shape, in the order of first appearance.
	Buckets []BucketRows

	keys     *system.Numbers // first 58 bits of the keys, with the number of the bucket in the last 6 bits
	repeated []uint64        // sorted fingerprints of keys that several rows have
}

// BucketRows counts the new rows of one bucket.
type BucketRows struct {
	Shape schemas.Bucket
	Rows  int64
	Keys  int64             // number of different rows
	First schemas.PromptRow // first of the rows; its MediaSeconds are the mean of all

	media float64 // MediaSeconds of all rows
}

// Add adds a row. It uses eight bytes of memory.
func (w *Work) Add(e *stages.Element) {
	w.New++
	if w.keys == nil {
		w.keys = &system.Numbers{}
	}
	w.keys.Add(fingerprint(e.Key) | uint64(w.count(e)))
}

// fingerprint returns the first 58 bits of a key; the others are 0.
func fingerprint(key schemas.Key) uint64 { return binary.BigEndian.Uint64(key[:]) &^ (maxBuckets - 1) }

// count counts a row in its bucket and returns the number of the bucket.
func (w *Work) count(e *stages.Element) int {
	shape := schemas.BucketOf(e.Row)
	for i := range w.Buckets {
		if w.Buckets[i].Shape == shape || i == maxBuckets-1 {
			w.Buckets[i].Rows++
			w.Buckets[i].media += e.Row.MediaSeconds
			return i
		}
	}
	w.Buckets = append(w.Buckets, BucketRows{Shape: shape, Rows: 1, First: e.Row, media: e.Row.MediaSeconds})
	return len(w.Buckets) - 1
}

// Seal counts the keys of each bucket, and computes the means of their rows. Call it after all rows were added.
func (w *Work) Seal() {
	if w.keys == nil {
		return
	}
	keys := w.keys.All()
	slices.Sort(keys)
	for i, k := range keys {
		if i == 0 || keys[i-1] != k {
			w.Buckets[k%maxBuckets].Keys++
		} else if n := len(w.repeated); n == 0 || w.repeated[n-1] != k&^(maxBuckets-1) {
			w.repeated = append(w.repeated, k&^(maxBuckets-1))
		}
	}
	w.keys.Free()
	w.keys = nil
	for i := range w.Buckets {
		b := &w.Buckets[i]
		b.First.MediaSeconds = b.media / float64(b.Rows)
	}
}

// Equal returns the number of rows that are equal to an earlier row and share its result.
func (w *Work) Equal() (n int64) {
	for _, b := range w.Buckets {
		n += b.Rows - b.Keys
	}
	return n
}

// Twice reports whether several rows may have the key. If it returns false, at most one row has it.
func (w *Work) Twice(key schemas.Key) bool {
	_, found := slices.BinarySearch(w.repeated, fingerprint(key))
	return found
}

// Expected returns the description of the rows that is sent to processes which compute them.
func (w *Work) Expected() host.ExpectedRows {
	return host.ExpectedRows{Rows: w.firsts(), Elements: w.elements()}
}

// elements returns the number of rows, limited to a number above which no decision depends on it.
func (w *Work) elements() int { return int(min(w.New, 1<<20)) }

// firsts returns a row of each shape.
func (w *Work) firsts() (rows []schemas.PromptRow) {
	for _, b := range w.Buckets {
		row := b.First
		row.Prompt, row.Extra = "", "" // not needed, so not sent
		rows = append(rows, row)
	}
	return rows
}
