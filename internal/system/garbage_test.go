package system

import (
	"math"
	"runtime/debug"
	"testing"
)

// TestBoundHeap: the bound is that of the process, and GOMEMLIMIT goes before it.
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
			t.Errorf("a bound of %d gives %d", c.bound, got)
		}
	}
	for _, c := range []struct{ beside, want int64 }{{1 << 28, 3 << 28}, {1 << 30, 1 << 28}, {-(1<<28 + 1<<30), 1 << 30}} {
		BesideHeap(c.beside)
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("with %d beside the heap it is %d, not %d", c.beside, got, c.want)
		}
	}
	t.Setenv("GOMEMLIMIT", "2GiB")
	BoundHeap(3 << 30)
	if got := debug.SetMemoryLimit(-1); got != 1<<30 {
		t.Errorf("with GOMEMLIMIT it is %d", got)
	}
}
