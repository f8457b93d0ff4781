package cpu

import (
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/kernels"
)

// poisoned returns a tensor of NaN.
func poisoned(b *Backend, dt kernels.DType, shape ...int) kernels.Tensor {
	t := b.Alloc(dt, shape...)
	host := make([]float32, t.Len())
	for i := range host {
		host[i] = float32(math.NaN())
	}
	b.Upload(t, host)
	return t
}

// download returns the elements of a tensor.
func download(t *testing.T, b *Backend, x kernels.Tensor) []float32 {
	t.Helper()
	got := make([]float32, x.Len())
	if err := b.Download(got, x); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestScratchMayBeDirty: old content of scratch memory, here NaN, does not change a result.
func TestScratchMayBeDirty(t *testing.T) {
	for _, tier := range allTiers() {
		for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
			b := New(2)
			b.tier = tier
			defer b.Scope()()
			same := kernels.ConvSpec{Front: 2, Top: 1, Left: 1, Bottom: 1, Right: 1}
			run := func(x, video kernels.Tensor) (linear, conv []float32) {
				defer b.Scope()()
				y, out := b.Alloc(dt, 7, 9), b.Alloc(dt, 1, 2, 5, 6, 4)
				b.Linear(y, x.Narrow(1, 1, 13), filled(b, dt, 9, 13), kernels.Epilogue{})
				b.Conv(out, video, filled(b, dt, 4, 3, 3, 3, 3), same)
				return download(t, b, y), download(t, b, out)
			}
			func() {
				defer b.Scope()()
				poisoned(b, kernels.F32, 1<<16)
				b.Conv(b.Alloc(dt, 1, 1, 6, 6, 4), poisoned(b, dt, 1, 3, 8, 8, 3), filled(b, dt, 4, 3, 3, 3, 3),
					kernels.ConvSpec{})
			}()
			linear, conv := run(filled(b, dt, 7, 15), filled(b, dt, 1, 2, 5, 6, 3))
			for i, x := range slices.Concat(linear, conv) {
				if x != x {
					t.Fatalf("%s %v: element %d is NaN", tier.name, dt, i)
				}
			}
		}
	}
}

// TestPartsOfAWeightAreSeparate: the cached packed form of one part of a weight is not used for another part.
func TestPartsOfAWeightAreSeparate(t *testing.T) {
	b := New(1)
	data := make([]byte, 8*8*4)
	for i := range 8 * 8 {
		data[4*i+3], data[4*i+2] = 0x3f, byte(i) // 0.5 to 1, all different
	}
	w, err := b.Weights(kernels.F32, []int{8, 8}, data)
	if err != nil {
		t.Fatal(err)
	}
	x := filled(b, kernels.F32, 3, 8)
	y := b.Alloc(kernels.F32, 3, 8)
	for range 2 {
		b.Linear(y, x, w, kernels.Epilogue{})
		whole := download(t, b, y)
		for part := range 2 {
			half := b.Alloc(kernels.F32, 3, 4)
			b.Linear(half, x, w.Narrow(0, 4*part, 4), kernels.Epilogue{})
			for i, got := range download(t, b, half) {
				if want := whole[i/4*8+4*part+i%4]; got != want {
					t.Fatalf("part %d: element %d is %v, want %v", part, i, got, want)
				}
			}
		}
		half := b.Alloc(kernels.F32, 3, 8)
		b.Linear(half, x.Narrow(1, 0, 4), w.Narrow(1, 0, 4), kernels.Epilogue{})
		if slices.Equal(download(t, b, half), whole) {
			t.Fatal("a product over half of the terms has the result of all terms")
		}
	}
}

// TestInnerScopesFreeAllChunks: memory of several chunks that an inner scope used is reused after it ends.
func TestInnerScopesFreeAllChunks(t *testing.T) {
	b := New(1)
	defer b.Scope()()
	b.Alloc(kernels.F32, 1000)
	capacity := 0
	for round := range 50 {
		end := b.Scope()
		b.Alloc(kernels.F32, minChunk/8) // half of the first chunk
		b.Alloc(kernels.F32, minChunk/4) // does not fit any more
		end()
		if round == 0 {
			capacity = b.arena.capacity()
		}
	}
	if got := b.arena.capacity(); got != capacity {
		t.Errorf("the arena has %d bytes after the last turn, want the %d after the first", got, capacity)
	}
}

// TestCrewWaitsForHelpers: a call returns only after its helpers have finished.
func TestCrewWaitsForHelpers(t *testing.T) {
	b := New(2)
	for range 10 {
		var begun, done atomic.Bool
		b.each("test", 2, func(_ *worker, i int) {
			if i == 0 { // wait, so that another goroutine gets the slow item
				for start := time.Now(); !begun.Load() && time.Since(start) < time.Minute; {
					time.Sleep(10 * time.Microsecond)
				}
				return
			}
			begun.Store(true)
			time.Sleep(3 * time.Millisecond)
			done.Store(true)
		})
		if !done.Load() {
			t.Fatal("each returned before an item was finished")
		}
	}
}
