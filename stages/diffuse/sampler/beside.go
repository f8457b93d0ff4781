package sampler

import (
	"runtime"
	"sync"
)

// drawn is the noise of all elements for one draw, which is made beside the network: a device leaves the host idle.
type drawn struct {
	values  []float32 // as z
	done    chan struct{}
	problem any // that the noise has panicked with
}

// drawAhead begins to draw the noise of all elements. What it returns is waited for before the next draw.
func (r *Run) drawAhead(d Draw) *drawn {
	if r.ahead == nil {
		r.ahead = make([]float32, len(r.z))
	}
	a := &drawn{values: r.ahead, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		defer func() { a.problem = recover() }()
		for e := range r.N {
			r.noise(d, e, a.values[r.starts[e]:r.starts[e+1]])
		}
	}()
	return a
}

// wait ends the drawing, if there is any. A panic of the noise goes on here.
func (a *drawn) wait() {
	if a == nil {
		return
	}
	<-a.done
	if a.problem != nil {
		panic(a.problem)
	}
}

// spanLeast is how many values are worth a goroutine.
const spanLeast = 16 << 10

// spans calls f for all of n values, in pieces side by side.
func spans(n int, f func(from, to int)) {
	pieces := max(1, min(n/spanLeast, runtime.GOMAXPROCS(0)))
	var all sync.WaitGroup
	for i := 1; i < pieces; i++ {
		all.Go(func() { f(i*n/pieces, (i+1)*n/pieces) })
	}
	f(0, n/pieces)
	all.Wait()
}
