package cpu

import (
	"errors"
	"fmt"
	"runtime"

	"latentbeam/kernels"
)

// Backend implements kernels.Backend on the host's processors. Every method runs to its end before it
// returns. It belongs to one goroutine at a time; several backends may run side by side and share weights.
type Backend struct {
	tier     *tier
	crew     *crew
	arena    arena
	views    [maxViews]view // operands of the operation in progress
	operands [maxViews]*view
	err      error // first error; everything after it is dropped

	keep    int   // bytes of a weight that is kept packed, at most
	keepAll int64 // of all of them in the process
	gemm    gemm  // the product in progress
	int8    int8Product
	conv    conv      // the convolution that it is, if it is one
	bias    []float32 // its bias

	calls // operations on rows

	tile, band, copyLeft func(w *worker, i int) // tasks of products as values, made once
	lastLoaded, lastUsed *buffer                // weights, see prefetch.go
}

// maxViews is the largest number of operands of an operation.
const maxViews = 8

var _ kernels.Backend = (*Backend)(nil)

// New returns a backend that computes on up to threads goroutines; 0 or less means one for each
// processor the program may use. Results do not depend on threads. The environment variable
// LATENTBEAM_CPU (amxbf16, avx512bf16, avx512, avx2 or go) asks for other instructions than the best this processor
// has; where it has not got those the backend starts out failed.
func New(threads int) *Backend { return NewOf("", threads) }

// NewOf is New for a numeric class, one of Classes; "" is the first of them. A backend of a class that this processor does
// not have starts out failed.
func NewOf(class string, threads int) *Backend {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	workers := make([]*worker, threads)
	for i := range workers {
		workers[i] = &worker{}
	}
	b := &Backend{crew: newCrew(workers), keep: packedMost, keepAll: packedLimit}
	runtime.AddCleanup(b, (*crew).dismiss, b.crew)
	b.tile, b.band, b.copyLeft = b.runTile, b.runBand, b.runCopyLeft
	b.tasks = newTasks(b)
	t, err := chooseTier(class)
	if err != nil {
		b.fail("%w", err)
	}
	b.tier = t
	return b
}

// Class returns "cpu/" and the instructions that the sums are made of: "cpu/go" for plain Go, with the same
// bits on every platform, "cpu/avx2", "cpu/avx512", "cpu/avx512bf16" or "cpu/amxbf16".
func (b *Backend) Class() string { return classPrefix + b.tier.name }

// Device returns "cpu".
func (b *Backend) Device() string { return "cpu" }

// Wait returns the first error since the backend was made.
func (b *Backend) Wait() error { return b.err }

// fail keeps the first error.
func (b *Backend) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("cpu: "+format, args...)
	}
}

// open checks the operands of op and resolves them; ok is false when there is nothing more to do. The
// zero Tensor ("none") resolves to nil. The views live until the next call: operations do not nest.
func (b *Backend) open(op string, ts ...kernels.Tensor) (views []*view, ok bool) {
	if b.err != nil {
		return nil, false
	}
	views = b.operands[:len(ts)]
	for i, t := range ts {
		views[i] = nil
		if t.IsZero() {
			continue
		}
		v, err := newView(t)
		if err != nil {
			b.fail("%s: operand %d: %w", op, i, err)
			return nil, false
		}
		b.views[i] = v
		views[i] = &b.views[i]
	}
	return views, true
}

// need reports whether the required operands, named in order, are present, and fails where one is not.
func (b *Backend) need(op string, names []string, views []*view) bool {
	for i, name := range names {
		if views[i] == nil {
			b.fail("%s: %s is missing", op, name)
			return false
		}
	}
	return true
}

var errFreed = errors.New("the tensor was used after the end of its scope")
