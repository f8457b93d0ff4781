package system

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// TestBoundHeap: BoundHeap sets the memory limit of the Go heap, unless GOMEMLIMIT is set. BesideHeap lowers the limit by memory that is used
// outside of the heap, down to a quarter of the bound.
func TestBoundHeap(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "")
	for _, c := range []struct{ bound, want int64 }{{0, math.MaxInt64}, {3 << 30, 3 << 30}, {1 << 30, 1 << 30}} {
		if c.bound == 0 {
			debug.SetMemoryLimit(math.MaxInt64)
		}
		BoundHeap(c.bound)
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("a bound of %d gives the limit %d, want %d", c.bound, got, c.want)
		}
	}
	// The bound is 1 GiB now. The third line takes back what the first two added.
	for _, c := range []struct{ beside, want int64 }{{1 << 28, 3 << 28}, {1 << 30, 1 << 28}, {-(1<<28 + 1<<30), 1 << 30}} {
		BesideHeap(c.beside)
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("BesideHeap(%d) gives the limit %d, want %d", c.beside, got, c.want)
		}
	}
	t.Setenv("GOMEMLIMIT", "2GiB")
	BoundHeap(3 << 30)
	if got := debug.SetMemoryLimit(-1); got != 1<<30 {
		t.Errorf("with GOMEMLIMIT, BoundHeap changed the limit to %d", got)
	}
}

// TestCollectOften: CollectOften lowers the percentage of garbage (GOGC) beside a large heap, but not beside a small one, which would be
// collected all the time. restore sets the old percentage.
func TestCollectOften(t *testing.T) {
	for _, c := range []struct {
		live       uint64 // bytes in use
		most, want int    // percentage of garbage: the old one, and the new one
	}{{0, 100, 100}, {1 << 20, 100, 100}, {16 << 20, 100, 50}, {80 << 20, 100, 10}, {1 << 40, 100, 10}, {1 << 20, 25, 25}, {1 << 40, 5, 5}} {
		if got := percentFor(c.live, c.most); got != c.want {
			t.Errorf("percentFor(%d, %d) = %d%%, want %d%%", c.live, c.most, got, c.want)
		}
	}
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	runtime.GC()
	restore := CollectOften()
	var from, to runtime.MemStats
	runtime.ReadMemStats(&from)
	for range 64 << 10 {
		kept = make([]byte, 1<<10)
	}
	if runtime.ReadMemStats(&to); to.NumGC-from.NumGC > 40 {
		t.Errorf("%d collections for 64 MiB of garbage beside a small heap, want at most 40", to.NumGC-from.NumGC)
	}
	kept = make([]byte, 100<<20)
	for range 100 { // the cleanup runs a little after the collection
		if runtime.GC(); percent() == oftenPercent {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if p := percent(); p != oftenPercent {
		t.Errorf("beside %d bytes the percentage is %d%%, want %d%%", len(kept), p, oftenPercent)
	}
	kept = nil
	restore()
	runtime.GC()
	time.Sleep(20 * time.Millisecond)
	if p := percent(); p != 100 {
		t.Errorf("after restore the percentage is %d%%, want 100%%", p)
	}
}

var kept []byte // keeps a slice on the heap
