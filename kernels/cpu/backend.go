package cpu

import (
	"errors"
	"fmt"
	"runtime"

	"latentbeam/kernels"
)

// Backend implements kernels.Backend on the host's processors. Every method completes its work before it returns. A backend
// serves one goroutine at a time; several backends may run concurrently and share weights.
type Backend struct {
	tier     *tier
	crew     *crew
	arena    arena
	views    [maxViews]view // operands of the operation in progress
	operands [maxViews]*view
	err      error // first error; everything after it is dropped

	maxCachedWeight int   // largest packed weight that is cached, in bytes
	maxCachedTotal  int64 // limit of all cached packed weights in the process, in bytes
	gemm            gemm  // the current product
	int8            int8Product
	conv            conv      // the current convolution
	bias            []float32 // the bias of the current operation as dense fp32, if it had to be copied

	callState // state of operations on rows

	tileTask, bandTask, copyLeftTask func(w *worker, i int) // tasks of products as function values, made once
	lastLoaded, lastUsed             *buffer                // weights, see prefetch.go
}

// maxViews is the largest number of operands of an operation.
const maxViews = 8

var _ kernels.Backend = (*Backend)(nil)

// New returns a backend that computes on up to threads goroutines; 0 or less means one for each processor the program may use.
// Results do not depend on threads. The environment variable LATENTBEAM_CPU (amxbf16, avx512bf16, avx512, avx2 or go) selects
// other instructions than the best of this processor; if the processor lacks them, every operation of the backend fails.
func New(threads int) *Backend { return NewOf("", threads) }

// NewOf is New for a numeric class, one of Classes; "" means the first of them. If this processor does not support the class,
// every operation of the backend fails.
func NewOf(class string, threads int) *Backend {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	workers := make([]*worker, threads)
	for i := range workers {
		workers[i] = &worker{}
	}
	b := &Backend{crew: newCrew(workers), maxCachedWeight: maxPackedSize, maxCachedTotal: maxPackedTotal}
	runtime.AddCleanup(b, (*crew).stopHelpers, b.crew)
	b.tileTask, b.bandTask, b.copyLeftTask = b.runTile, b.runBand, b.runCopyLeft
	b.tasks = newTasks(b)
	t, err := chooseTier(class)
	if err != nil {
		b.fail("%w", err)
	}
	b.tier = t
	return b
}

// Class returns "cpu/" and the instructions that define the sums: "cpu/go" for plain Go, with the same bits on every platform,
// "cpu/avx2", "cpu/avx512", "cpu/avx512bf16" or "cpu/amxbf16".
func (b *Backend) Class() string { return classPrefix + b.tier.name }

// Device returns "cpu".
func (b *Backend) Device() string { return "cpu" }

// Wait returns the first error since the backend was made.
func (b *Backend) Wait() error { return b.err }

// fail records the first error.
func (b *Backend) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("cpu: "+format, args...)
	}
}

// resolve checks and resolves the operands of op; ok is false if there is nothing more to do. The zero Tensor ("none") resolves to
// nil. The views are valid until the next call: operations do not nest.
func (b *Backend) resolve(op string, ts ...kernels.Tensor) (views []*view, ok bool) {
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

// checkPresent reports whether the required operands, named in order, are present. If one is missing it records an error.
func (b *Backend) checkPresent(op string, names []string, views []*view) bool {
	for i, name := range names {
		if views[i] == nil {
			b.fail("%s: %s is missing", op, name)
			return false
		}
	}
	return true
}

var errFreed = errors.New("the tensor was used after the end of its scope")
