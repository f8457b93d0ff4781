package store

import (
	"fmt"
	"strings"
	"time"

	"latentbeam/schemas/fault"
)

// PromiseState is the result of checking a promise.
type PromiseState string

// States of a promise.
const (
	Kept    PromiseState = "kept"
	Broken  PromiseState = "broken"
	Unknown PromiseState = "unknown" // this process has no right to check it
)

// Promise is a property that jobs expect of a store, with the result of a check.
type Promise struct {
	Name   string       `json:"name"` // such as "put if absent"
	State  PromiseState `json:"state"`
	Needed bool         `json:"needed"` // without it a job could lose or mix results
	Found  string       `json:"found"`
	// Took is the duration of the check.
	Took time.Duration `json:"took_ns"`
}

// BrokenPromises returns the promises that a job needs but the store does not keep.
func BrokenPromises(all []Promise) (broken []Promise) {
	for _, p := range all {
		if p.Needed && p.State == Broken {
			broken = append(broken, p)
		}
	}
	return broken
}

// Refuse returns the error for a store that does not keep a promise that a job needs, nil if it keeps all. It is fault.Usage.
func Refuse(url string, all []Promise) error {
	broken := BrokenPromises(all)
	if len(broken) == 0 {
		return nil
	}
	var found []string
	for _, p := range broken {
		found = append(found, p.Name+": "+p.Found)
	}
	return fault.Usage(fmt.Errorf("output %s: the store does not give the guarantees that a job needs, so results could be lost or "+
		"mixed: %s; `latentbeam doctor %s` lists them all; use another store (docs/buckets.md), or set output.unsafe_store: true "+
		"if only one run writes there", url, strings.Join(found, "; "), url))
}
