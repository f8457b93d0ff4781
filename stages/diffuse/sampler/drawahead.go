package sampler

import (
	"runtime"
	"sync"
)

// drawn is the noise of all elements for one draw. It is drawn on the host while the device evaluates the network.
type drawn struct {
	values  []float32 // laid out like z
	done    chan struct{}
	problem any // value of a panic in the noise function
}

// drawAhead starts to draw the noise of all elements. The caller must wait for the result before the next draw.
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

// wait waits until the noise is drawn. A panic of the noise function continues here. A nil drawn needs no wait.
func (a *drawn) wait() {
	if a == nil {
		return
	}
	<-a.done
	if a.problem != nil {
		panic(a.problem)
	}
}

// spanLeast is the smallest number of values for which a goroutine pays.
const spanLeast = 16 << 10

// spans calls f for ranges that cover all n values, concurrently.
func spans(n int, f func(from, to int)) {
	pieces := max(1, min(n/spanLeast, runtime.GOMAXPROCS(0)))
	var all sync.WaitGroup
	for i := 1; i < pieces; i++ {
		all.Go(func() { f(i*n/pieces, (i+1)*n/pieces) })
	}
	f(0, n/pieces)
	all.Wait()
}
