// Package forecast predicts what a run takes: how its rows are shared out to devices, its time and its room on disk. `plan`,
// a dry run and the report of a run ask it alike.
package forecast

import (
	"encoding/binary"
	"slices"

	"latentbeam/internal/engine/host"
	"latentbeam/internal/system"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// maxBuckets bounds the shapes that a plan keeps apart; the rest counts with the last one.
const maxBuckets = 64

// Work is the rows that a run is to compute.
type Work struct {
	New int64
	// Buckets counts the rows of each shape, in the order of first appearance.
	Buckets []BucketRows

	keys     *system.Numbers // of the rows, by their first 58 bits, with the bucket in the others
	repeated []uint64        // fingerprints of keys that several rows have, sorted
}

// BucketRows counts the new rows of one bucket.
type BucketRows struct {
	Shape schemas.Bucket
	Rows  int64
	Keys  int64             // of them, equal rows counted once
	First schemas.PromptRow // the first of them
}

// Add adds a row. It takes eight bytes.
func (w *Work) Add(e *stages.Element) {
	w.New++
	if w.keys == nil {
		w.keys = &system.Numbers{}
	}
	w.keys.Add(fingerprint(e.Key) | uint64(w.count(e)))
}

func fingerprint(key schemas.Key) uint64 { return binary.BigEndian.Uint64(key[:]) &^ (maxBuckets - 1) }

// count counts a row in its bucket and returns the number of the bucket.
func (w *Work) count(e *stages.Element) int {
	shape := schemas.BucketOf(e.Row)
	for i := range w.Buckets {
		if w.Buckets[i].Shape == shape || i == maxBuckets-1 {
			w.Buckets[i].Rows++
			return i
		}
	}
	w.Buckets = append(w.Buckets, BucketRows{Shape: shape, Rows: 1, First: e.Row})
	return len(w.Buckets) - 1
}

// Seal counts the keys of each bucket, once all rows were added.
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
}

// Equal is how many rows are equal to an earlier one and share its result.
func (w *Work) Equal() (n int64) {
	for _, b := range w.Buckets {
		n += b.Rows - b.Keys
	}
	return n
}

// Twice says that a key may be that of several rows; of others, that it is not.
func (w *Work) Twice(key schemas.Key) bool {
	_, found := slices.BinarySearch(w.repeated, fingerprint(key))
	return found
}

// Expected is what processes that compute the rows are told of them.
func (w *Work) Expected() host.ExpectedRows {
	return host.ExpectedRows{Rows: w.firsts(), Elements: w.elements()}
}

// elements is how many rows there are, up to so many that a decision does not depend on the number.
func (w *Work) elements() int { return int(min(w.New, 1<<20)) }

// firsts returns a row of each shape.
func (w *Work) firsts() (rows []schemas.PromptRow) {
	for _, b := range w.Buckets {
		row := b.First
		row.Prompt, row.Extra = "", "" // nothing depends on them
		rows = append(rows, row)
	}
	return rows
}
