package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// crew holds the goroutines that help a backend: one for each worker except the first, which is the caller's goroutine. Helpers
// spin for a while to wait for work and then park, because a product often takes less time than waking a thread. A crew refers
// to its backend only during a call, so that an unused backend is garbage collected and its helpers end.
type crew struct {
	workers    []*worker
	start      sync.Once
	spinRounds int // iterations that a helper spins before it parks
	parked     []atomic.Bool
	wake       []chan struct{}
	quit       atomic.Bool

	gate atomic.Uint64 // generation << 32 | open | helpers inside
	_    [56]byte      // the following field changes with every item
	next atomic.Int64
	_    [56]byte

	// The current call; written only while no helper is inside.
	op         string
	n          int
	f          func(w *worker, i int)
	panicError atomic.Pointer[error]
}

const (
	gateOpen  = 1 << 31
	gateCount = gateOpen - 1

	// defaultSpinRounds times pauseRounds PAUSE instructions take about 50 us: longer than the Go code between two products, and too
	// short to take much time from other goroutines.
	defaultSpinRounds = 400
	pauseRounds       = 8
)

func newCrew(workers []*worker) *crew {
	c := &crew{workers: workers, parked: make([]atomic.Bool, len(workers)), wake: make([]chan struct{}, len(workers))}
	for i := range c.wake {
		c.wake[i] = make(chan struct{}, 1)
	}
	return c
}

// run calls f(worker, i) once for every i in [0, n), on up to as many workers, and returns when all calls are done. A panic in
// f is a mistake in this package; run returns it as an error.
func (c *crew) run(workers int, op string, n int, f func(w *worker, i int)) error {
	c.op, c.n, c.f = op, n, f
	c.next.Store(0)
	if helpers := min(n, workers, len(c.workers)) - 1; helpers > 0 {
		c.start.Do(c.startHelpers)
		c.gate.Store((c.gate.Load()>>32+1)<<32 | gateOpen)
		for i := 1; i <= helpers; i++ {
			c.wakeHelper(i)
		}
		c.processItems(c.workers[0])
		c.closeGate()
	} else {
		c.processItems(c.workers[0])
	}
	c.f = nil
	if err := c.panicError.Swap(nil); err != nil {
		return *err
	}
	return nil
}

// closeGate closes the gate and waits until the last helper has left. Helpers that wake up later find the gate closed, so run does
// not wait for them.
func (c *crew) closeGate() {
	for round := 0; ; round++ {
		g := c.gate.Load()
		switch {
		case g&gateOpen != 0:
			c.gate.CompareAndSwap(g, g&^gateOpen)
		case g&gateCount == 0:
			return
		case round < defaultSpinRounds:
			pause(pauseRounds)
		default:
			runtime.Gosched()
		}
	}
}

// processItems processes items until none are left.
func (c *crew) processItems(w *worker) {
	defer func() {
		if r := recover(); r != nil {
			err := fmt.Errorf("%s: internal error: %v", c.op, r)
			c.panicError.CompareAndSwap(nil, &err)
		}
	}()
	for i := int(c.next.Add(1)) - 1; i < c.n; i = int(c.next.Add(1)) - 1 {
		c.f(w, i)
	}
}

func (c *crew) startHelpers() {
	if len(c.workers) <= runtime.GOMAXPROCS(0) {
		c.spinRounds = defaultSpinRounds
	}
	for i := 1; i < len(c.workers); i++ {
		go c.helperLoop(i)
	}
}

// helperLoop is the main loop of helper i.
func (c *crew) helperLoop(i int) {
	for last := uint64(0); ; {
		g := c.waitForWork(i, last)
		if c.quit.Load() {
			return
		}
		last = g >> 32
		for g>>32 == last && g&gateOpen != 0 {
			if c.gate.CompareAndSwap(g, g+1) {
				c.processItems(c.workers[i])
				c.gate.Add(^uint64(0))
				break
			}
			g = c.gate.Load()
		}
	}
}

// waitForWork returns the gate when it is open for a generation after last, or when helper i has been woken.
func (c *crew) waitForWork(i int, last uint64) uint64 {
	for range c.spinRounds {
		if g := c.gate.Load(); g>>32 != last && g&gateOpen != 0 {
			return g
		}
		pause(pauseRounds)
	}
	c.parked[i].Store(true)
	if g := c.gate.Load(); g>>32 != last && g&gateOpen != 0 || c.quit.Load() {
		if c.parked[i].CompareAndSwap(true, false) {
			return g
		} // else the token is on its way
	}
	<-c.wake[i]
	return c.gate.Load()
}

// wakeHelper wakes helper i if it is parked.
func (c *crew) wakeHelper(i int) {
	if c.parked[i].Load() && c.parked[i].CompareAndSwap(true, false) {
		c.wake[i] <- struct{}{}
	}
}

// stopHelpers ends the helpers.
func (c *crew) stopHelpers() {
	c.quit.Store(true)
	for i := range c.workers {
		c.wakeHelper(i)
	}
}
