package system

import (
	"os"
	"runtime/debug"
	"sync"
)

// oftenPercent is how much garbage there may be beside what is in use where memory counts more than time, in per cent.
const oftenPercent = 10

// CollectOften lets less garbage gather until the function that it returns is called, where GOGC does not ask for less already. For
// work that comes behind a job's own and must not need more memory than that.
func CollectOften() (restore func()) {
	before := debug.SetGCPercent(oftenPercent)
	if before >= 0 && before <= oftenPercent {
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
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
