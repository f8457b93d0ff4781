package cpu

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// worker is the scratch memory of one goroutine, kept from call to call.
type worker struct {
	panels    panels
	attention operands
	lists     [3][]float32
}

// floats returns scratch list i with n elements, uninitialised.
func (w *worker) floats(i, n int) []float32 {
	if cap(w.lists[i]) < n {
		w.lists[i] = make([]float32, classSize(n))
	}
	return w.lists[i][:n]
}

// each calls f(worker, i) once for every i in [0, n), on up to as many goroutines as the backend has
// workers. Tasks are handed out in any order, so no result may depend on which worker ran what. A panic
// in f is a mistake in this package and becomes the backend's error.
func (b *Backend) each(op string, n int, f func(w *worker, i int)) {
	var next atomic.Int64
	var caught atomic.Pointer[error]
	run := func(w *worker) {
		defer func() {
			if r := recover(); r != nil {
				err := fmt.Errorf("%s: internal error: %v", op, r)
				caught.CompareAndSwap(nil, &err)
			}
		}()
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(w, i)
		}
	}
	var wg sync.WaitGroup
	for _, w := range b.workers[1:max(1, min(n, len(b.workers)))] {
		wg.Go(func() { run(w) })
	}
	run(b.workers[0])
	wg.Wait()
	if err := caught.Load(); err != nil {
		b.fail("%w", *err)
	}
}

// eachSpan splits n items that cost about the given number of elements each into tasks worth a
// goroutine's while, and calls f with the bounds of each.
func (b *Backend) eachSpan(op string, n, cost int, f func(w *worker, from, to int)) {
	const worthwhile = 1 << 14 // elements of a task, some 10 us
	per := max(1, worthwhile/max(1, cost))
	b.each(op, (n+per-1)/per, func(w *worker, i int) { f(w, i*per, min(n, (i+1)*per)) })
}
