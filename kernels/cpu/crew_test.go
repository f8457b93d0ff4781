package cpu

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"latentbeam/kernels"
)

// TestCrewDoesEverythingOnce: a crew is the goroutines of a backend that share the items of a call. Each item is processed once, for any number
// of items and goroutines, also after pauses in which the helpers have gone to sleep.
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

// TestCrewHelps: two items that wait for each other end, because two goroutines process them.
func TestCrewHelps(t *testing.T) {
	b := New(2)
	for range 3 {
		var met atomic.Int32
		b.each("test", 2, func(*worker, int) {
			met.Add(1)
			for start := time.Now(); met.Load() < 2 && time.Since(start) < time.Minute; {
				runtime.Gosched()
			}
		})
		if met.Load() != 2 {
			t.Fatal("the second item was not processed while the first one waited for it")
		}
		time.Sleep(2 * time.Millisecond) // until the helper sleeps
	}
}

// TestCrewEndsWithBackend: the helpers of a backend end when the backend is not referenced any more.
func TestCrewEndsWithBackend(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		New(4).each("test", 9, func(*worker, int) {})
	}
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(5 * time.Millisecond) {
		runtime.GC()
		if runtime.NumGoroutine() <= before+1 {
			return
		}
	}
	t.Errorf("there are %d goroutines, want at most the %d from before and one more", runtime.NumGoroutine(), before)
}

// TestNothingHoldsABackend: after any operation, the crew has no reference to its backend, so the garbage collector frees the backend
// and its memory.
func TestNothingHoldsABackend(t *testing.T) {
	for name, compute := range map[string]func(b *Backend, x kernels.Tensor){
		"each": func(b *Backend, _ kernels.Tensor) { b.each("test", 9, func(*worker, int) {}) },
		"linear": func(b *Backend, x kernels.Tensor) {
			rows := x.Reshape(100*64, 32)
			b.Linear(b.Alloc(kernels.F32, 100*64, 100), rows, rows.Narrow(0, 0, 100),
				kernels.Epilogue{Act: kernels.SiLU, Residual: rows.Narrow(1, 0, 1).Expand(100*64, 100)})
		},
		"conv": func(b *Backend, x kernels.Tensor) {
			b.Conv(b.Alloc(kernels.F32, 1, 80, 80, 4), x.Reshape(1, 80, 80, 32), filled(b, kernels.F32, 4, 32, 3, 3),
				kernels.ConvSpec{Top: 1, Left: 1, Bottom: 1, Right: 1})
		},
		"attention": func(b *Backend, x kernels.Tensor) {
			q := x.Reshape(100, 32, 4, 16)
			b.Attention(b.Alloc(kernels.F32, 100, 32, 4, 16), q, q, q, kernels.AttentionSpec{})
		},
		"long attention": func(b *Backend, x kernels.Tensor) {
			q := x.Reshape(1, 3200, 4, 16)
			b.Attention(b.Alloc(kernels.F32, 1, 3200, 4, 16), q, q.Narrow(1, 0, 300), q.Narrow(1, 0, 300), kernels.AttentionSpec{})
		},
		"norm": func(b *Backend, x kernels.Tensor) { b.Norm(x, x, kernels.NormSpec{Eps: 1}) },
		"group norm": func(b *Backend, x kernels.Tensor) {
			b.Norm(x.Reshape(1, 80, 80, 32), x.Reshape(1, 80, 80, 32), kernels.NormSpec{Kind: kernels.GroupNorm, Groups: 4, Eps: 1})
		},
		"rope": func(b *Backend, x kernels.Tensor) {
			angles := filled(b, kernels.F32, 16).Expand(100, 64, 16)
			b.Rope(x, x, angles, angles)
		},
		"rows": func(b *Backend, x kernels.Tensor) {
			b.Unary(x, x, kernels.SiLU)
			b.Binary(x, x, x, kernels.Add)
			b.Copy(b.Alloc(kernels.F32, 64, 100, 32), x.Permute(1, 0, 2))
			b.Gather(b.Alloc(kernels.F32, 500, 32), x.Reshape(6400, 32), make([]int32, 500))
		},
	} {
		b := New(4)
		end := b.Scope()
		compute(b, filled(b, kernels.F32, 100, 64, 32))
		if err := b.Wait(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		end()
		held := weak.Make(b)
		b, end = nil, nil
		for start := time.Now(); held.Value() != nil && time.Since(start) < time.Minute; time.Sleep(time.Millisecond) {
			runtime.GC()
		}
		if held.Value() != nil {
			t.Errorf("%s: the garbage collector did not free the backend within a minute", name)
		}
	}
}

// BenchmarkEach measures a call of each with two items that do nothing.
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
