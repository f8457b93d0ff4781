package cpu

import "runtime"

// worker is the scratch memory of one goroutine, reused from call to call.
type worker struct {
	attention attentionScratch
	lists     [5][]float32
	rows      rowScratch

	// For products: the current call, a panel packed on the fly, sums before the epilogue, their rounded form, and the rows of
	// input that a convolution reads.
	reduce                  reduce
	panel, sums, half, band scratch
}

// floats returns scratch list i with n elements, uninitialised.
func (w *worker) floats(i, n int) []float32 {
	if cap(w.lists[i]) < n {
		w.lists[i] = make([]float32, n+n/8)
	}
	return w.lists[i][:n]
}

// each calls f(worker, i) once for every i in [0, n), on up to as many goroutines as the backend has workers. The order of
// tasks is not fixed, so no result may depend on which worker ran a task.
func (b *Backend) each(op string, n int, f func(w *worker, i int)) {
	b.eachOf(len(b.crew.workers), op, n, f)
}

// eachOf is each with at most the given number of workers.
func (b *Backend) eachOf(workers int, op string, n int, f func(w *worker, i int)) {
	if err := b.crew.run(workers, op, n, f); err != nil {
		b.fail("%w", err)
	}
	runtime.KeepAlive(b) // keep b's arena mapped until here
}

// eachSpan divides n items, each with a cost of about the given number of elements, into tasks that are worth a goroutine, and
// calls f with the bounds of each task.
func (b *Backend) eachSpan(op string, n, cost int, f func(w *worker, from, to int)) {
	const worthwhile = 1 << 14 // elements per task, about 10 us
	per := max(1, worthwhile/max(1, cost))
	b.span = span{n: n, per: per, f: f}
	b.each(op, (n+per-1)/per, b.tasks.span)
	b.span.f = nil
}

// runSpan is the task of eachSpan.
func (b *Backend) runSpan(w *worker, i int) {
	s := &b.span
	s.f(w, i*s.per, min(s.n, (i+1)*s.per))
}
