package system

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Garbage that CollectOften allows: oftenPercent of the live heap, but at least oftenBytes, because collecting a small heap often
// costs more time than it saves memory.
const (
	oftenPercent = 10
	oftenBytes   = 8 << 20
)

// CollectOften makes the garbage collector run more often, so that less garbage exists at a time, until restore is called. It never
// allows more garbage than GOGC. It is for work after a job's own work, such as tables, which must not need more memory than that.
func CollectOften() (restore func()) {
	before := debug.SetGCPercent(oftenPercent)
	o := &gcTuner{percent: oftenPercent, most: before}
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

// defaultPercent is the default of GOGC.
const defaultPercent = 100

// gcTuner adapts the percentage of GOGC to the live heap after each collection.
type gcTuner struct {
	sync.Mutex
	percent, most int // garbage in percent of the live heap: now, and the upper bound
	restored      bool
}

// liveHeap is the metric of the bytes that were live at the last collection.
const liveHeap = "/gc/heap/live:bytes"

// percentFor returns the allowed garbage for a live heap of live bytes, in percent of it, and at most most.
func percentFor(live uint64, most int) int {
	return min(most, max(oftenPercent, int(oftenBytes*100/max(1, live))))
}

// adapt sets the percentage for the current live heap, and again after each collection.
func (o *gcTuner) adapt() {
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
	runtime.AddCleanup(new([4]uintptr), (*gcTuner).adapt, o) // the array is unreachable, so the next collection calls adapt
}

// heapBound is the memory limit of BoundHeap and the mapped memory that counts for it, in bytes.
var heapBound struct {
	sync.Mutex
	bound, beside int64
}

// BoundHeap sets a soft limit in bytes for the heap and the memory counted by BesideHeap together. Without it the heap may grow to
// twice the live memory. Frequent collections are cheap here, because large objects contain no pointers. BoundHeap does nothing if
// GOMEMLIMIT is set. The limit holds for the process until the next call.
func BoundHeap(bound int64) {
	if os.Getenv("GOMEMLIMIT") != "" || bound <= 0 {
		return
	}
	heapBound.Lock()
	defer heapBound.Unlock()
	heapBound.bound = bound
	limitHeap()
}

// BesideHeap adds n bytes, which may be negative, to the count of memory outside the heap, such as mapped scratch memory.
func BesideHeap(n int64) {
	if n == 0 {
		return
	}
	heapBound.Lock()
	defer heapBound.Unlock()
	heapBound.beside += n
	if heapBound.bound > 0 {
		limitHeap()
	}
}

// limitHeap sets the memory limit of the runtime. The heap gets at least a quarter of the bound, because the collector would
// otherwise run all the time.
func limitHeap() {
	debug.SetMemoryLimit(max(heapBound.bound-heapBound.beside, heapBound.bound/4))
}
