package cpu

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestCrewDoesEverythingOnce: every item once, whatever the number of items, helpers and processors, and
// with pauses in which helpers park.
func TestCrewDoesEverythingOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		b := New(threads)
		for round := range 2000 {
			n := round % 7 * (round % 5)
			done := make([]atomic.Int32, n)
			b.each("test", n, func(_ *worker, i int) { done[i].Add(1) })
			for i := range done {
				if got := done[i].Load(); got != 1 {
					t.Fatalf("%d threads, round %d: item %d of %d was done %d times", threads, round, i, n, got)
				}
			}
			if round%500 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
}

// TestCrewHelps: two items that wait for each other need two goroutines.
func TestCrewHelps(t *testing.T) {
	b := New(2)
	for range 3 {
		var met atomic.Int32
		b.each("test", 2, func(*worker, int) {
			met.Add(1)
			for start := time.Now(); met.Load() < 2 && time.Since(start) < 10*time.Second; {
				runtime.Gosched()
			}
		})
		if met.Load() != 2 {
			t.Fatal("the second item waited for the first")
		}
		time.Sleep(2 * time.Millisecond) // the helper parks
	}
}

// TestCrewGoesHome: the helpers of a backend that nobody uses any more end.
func TestCrewGoesHome(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		New(4).each("test", 9, func(*worker, int) {})
	}
	for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
		runtime.GC()
		if runtime.NumGoroutine() <= before+1 {
			return
		}
	}
	t.Errorf("%d goroutines are left of %d", runtime.NumGoroutine(), before)
}

// BenchmarkEach is the cost of sharing two empty items.
func BenchmarkEach(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprint(threads, " threads"), func(b *testing.B) {
			be := New(threads)
			f := func(*worker, int) {}
			b.ReportAllocs()
			for b.Loop() {
				be.each("test", 2, f)
			}
		})
	}
}
