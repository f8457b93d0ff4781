package system

import (
	"os"
	"runtime/debug"
)

// oftenPercent is how much garbage there may be beside what is in use where memory counts more than time, in per cent.
const oftenPercent = 30

// CollectOften lets less garbage gather until the function that it returns is called, where GOGC does not ask for less already. For
// work that comes behind a job's own and must not need more memory than that.
func CollectOften() (restore func()) {
	before := debug.SetGCPercent(oftenPercent)
	if before >= 0 && before <= oftenPercent {
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
}

// BoundHeap makes garbage be collected before the heap is larger than bound bytes: without it the heap may grow to twice what is in use. A
// collection costs little here, because what is large has no pointers. It does nothing where GOMEMLIMIT says another bound. The bound holds for the process, until the next call.
func BoundHeap(bound int64) {
	if os.Getenv("GOMEMLIMIT") == "" && bound > 0 {
		debug.SetMemoryLimit(bound)
	}
}
