package system

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// How much garbage there may be beside the live heap where memory counts more than time: oftenPercent of it, and on a small heap, whose
// collection would cost more than it gives, up to oftenBytes.
const (
	oftenPercent = 10
	oftenBytes   = 8 << 20
)

// CollectOften lets less garbage gather until the function that it returns is called, where GOGC does not ask for less already. For
// work that comes behind a job's own and must not need more memory than that.
func CollectOften() (restore func()) {
	before := debug.SetGCPercent(oftenPercent)
	o := &often{percent: oftenPercent, most: before}
	if before < 0 {
		o.most = defaultPercent
	}
	o.adapt()
	return func() {
		o.Lock()
		defer o.Unlock()
		o.restored = true
		debug.SetGCPercent(before)
	}
}

// defaultPercent is the runtime's GOGC.
const defaultPercent = 100

// often follows the live heap from collection to collection.
type often struct {
	sync.Mutex
	percent, most int // of the live heap
	restored      bool
}

// liveHeap names the metric of the bytes that the last collection left.
const liveHeap = "/gc/heap/live:bytes"

// percentFor returns how much garbage there may be beside a live heap of so many bytes, in per cent of it. most is the upper bound.
func percentFor(live uint64, most int) int {
	return min(most, max(oftenPercent, int(oftenBytes*100/max(1, live))))
}

// adapt sets the percentage for the live heap, now and after each collection.
func (o *often) adapt() {
	o.Lock()
	defer o.Unlock()
	if o.restored {
		return
	}
	sample := []metrics.Sample{{Name: liveHeap}}
	metrics.Read(sample)
	if p := percentFor(sample[0].Value.Uint64(), o.most); p != o.percent {
		debug.SetGCPercent(p)
		o.percent = p
	}
	runtime.AddCleanup(new([4]uintptr), (*often).adapt, o) // the next collection finds the array dead
}

// bounded is what the heap may take.
var bounded struct {
	sync.Mutex
	bound, beside int64
}

// BoundHeap makes garbage be collected before the heap and what lies beside it are larger than bound bytes together: without it the heap
// may grow to twice what is in use. A collection costs little here, because what is large has no pointers. It does nothing where GOMEMLIMIT
// says another bound. The bound holds for the process, until the next call.
func BoundHeap(bound int64) {
	if os.Getenv("GOMEMLIMIT") != "" || bound <= 0 {
		return
	}
	bounded.Lock()
	defer bounded.Unlock()
	bounded.bound = bound
	limitHeap()
}

// BesideHeap counts memory of the process that is not on its heap and comes (n > 0) or goes: mapped scratch.
func BesideHeap(n int64) {
	if n == 0 {
		return
	}
	bounded.Lock()
	defer bounded.Unlock()
	bounded.beside += n
	if bounded.bound > 0 {
		limitHeap()
	}
}

// limitHeap tells the runtime. At least a quarter of the bound is the heap's, or the collector would not rest.
func limitHeap() {
	debug.SetMemoryLimit(max(bounded.bound-bounded.beside, bounded.bound/4))
}
