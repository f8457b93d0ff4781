package cpu

import (
	"math"
	"strings"
	"testing"

	"latentbeam/kernels"
)

// TestArenaReachesASteadyState: a loop over the same shapes allocates memory only once.
func TestArenaReachesASteadyState(t *testing.T) {
	b := New(1)
	step := func() {
		defer b.Scope()()
		for _, n := range []int{1000, 70_000, 1001, 0, 333} {
			x := b.Alloc(kernels.F32, n)
			y := b.Alloc(kernels.BF16, n)
			b.Copy(y, x)
		}
	}
	step()
	bytes := testing.Benchmark(func(tb *testing.B) {
		tb.ReportAllocs()
		for tb.Loop() {
			step()
		}
	}).AllocedBytesPerOp()
	if bytes > 16<<10 { // enough for views and closures; the tensors of a step have 572 kB
		t.Errorf("a step allocates %d bytes, want at most 16 KiB", bytes)
	}
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestArenaForgetsOldShapes: one tensor after another is allocated and freed, each larger than the one before. The arena keeps at most three
// times the memory of the largest.
func TestArenaForgetsOldShapes(t *testing.T) {
	b := New(1)
	largest := 0
	for n := 1000; n < 1<<20; n += n / 3 {
		end := b.Scope()
		b.Alloc(kernels.F32, n)
		largest = max(largest, b.arena.capacity())
		end()
	}
	if limit := 3 * 4 << 20; largest > limit {
		t.Errorf("for tensors of at most %d bytes the arena keeps %d bytes, want at most %d", 4<<20, largest, limit)
	}
}

// TestBlocksAreNotShared: two live tensors never overlap, in any order of allocating and freeing.
func TestBlocksAreNotShared(t *testing.T) {
	b := New(1)
	defer b.Scope()()
	for round := range 3 {
		end := b.Scope()
		var all []kernels.Tensor
		for i := range 20 {
			x := b.Alloc(kernels.F32, 10+i%3)
			value := make([]float32, x.Len())
			for j := range value {
				value[j] = float32(i)
			}
			b.Upload(x, value)
			all = append(all, x)
		}
		for i, x := range all {
			got := make([]float32, x.Len())
			if err := b.Download(got, x); err != nil {
				t.Fatal(err)
			}
			if got[0] != float32(i) || got[len(got)-1] != float32(i) {
				t.Fatalf("round %d: tensor %d has %v, want %d everywhere", round, i, got, i)
			}
		}
		end()
	}
}

// TestUseAfterScopeFails: using a tensor after the end of its scope is an error, also by a view of it.
func TestUseAfterScopeFails(t *testing.T) {
	b := New(1)
	end := b.Scope()
	x := b.Alloc(kernels.F32, 3)
	end()
	b.Copy(b.Alloc(kernels.F32, 3), x.Narrow(0, 0, 3))
	if err := b.Wait(); err == nil || !strings.Contains(err.Error(), errFreed.Error()) {
		t.Errorf("got error %v, want %v", err, errFreed)
	}
}

// TestWeightsInPlace: Weights uses bytes in place if they are aligned, else it copies them. The test changes the bytes afterwards and looks
// whether the weight changes.
func TestWeightsInPlace(t *testing.T) {
	data := make([]byte, 64)
	for dt, size := range map[kernels.DType]int{kernels.F32: 4, kernels.BF16: 2} {
		for shift := range 5 {
			w, err := New(1).Weights(dt, []int{3}, data[shift:shift+3*size])
			if err != nil {
				t.Fatal(err)
			}
			got, read := []float32{9, 9, 9}, New(1)
			data[shift+size-1] = 0x3f // the highest byte of element 0
			if err := read.Download(got, w); err != nil {
				t.Fatal(err)
			}
			data[shift+size-1] = 0
			if inPlace := got[0] != 0; inPlace != (shift%size == 0) {
				t.Errorf("%v at byte %d: used in place: %v, want %v", dt, shift, inPlace, !inPlace)
			}
		}
	}
}

// TestPanicBecomesAnError: a panic inside a kernel becomes an error of the backend and does not end the process.
func TestPanicBecomesAnError(t *testing.T) {
	for _, threads := range []int{1, 4} {
		b := New(threads)
		b.each("test", 9, func(_ *worker, i int) {
			var list []int
			_ = list[i]
		})
		if err := b.Wait(); err == nil || !strings.Contains(err.Error(), "test: internal error") {
			t.Errorf("%d threads: got error %v, want an internal error of test", threads, err)
		}
	}
}

// TestExp compares exp with float64, for arguments whose result is a normal float32, and at the ends of the range.
func TestExp(t *testing.T) {
	worst := 0.0
	for x := float32(-87.3); x < 88.36; x += 0.00137 {
		want := math.Exp(float64(x))
		worst = max(worst, math.Abs(float64(exp(x))/want-1))
	}
	if worst > 2e-7 {
		t.Errorf("the relative error is %v, want at most 2e-7", worst)
	}
	inf := float32(math.Inf(1))
	for x, want := range map[float32]float32{0: 1, -1e9: 0, -inf: 0, inf: inf, 1e9: inf, 1e-30: 1} {
		if got := exp(x); got != want {
			t.Errorf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	if nan := float32(math.NaN()); exp(nan) == exp(nan) {
		t.Errorf("exp(NaN) = %v, want NaN", exp(nan))
	}
}

// TestOrderOfAdditions pins the order of additions of the class cpu/go: it adds stageTerms terms in their order, and then the sums of these
// stages.
func TestOrderOfAdditions(t *testing.T) {
	t.Setenv(tierVariable, "go")
	const k = 2*stageTerms + 77
	b := New(3)
	xs, ws := make([]float32, 5*k), make([]float32, 3*k)
	for i := range xs {
		xs[i] = float32(i%251)/97 - 1
	}
	for i := range ws {
		ws[i] = float32(i%239)/83 - 1
	}
	x, w, y := b.Alloc(kernels.F32, 5, k), b.Alloc(kernels.F32, 3, k), b.Alloc(kernels.F32, 5, 3)
	b.Upload(x, xs)
	b.Upload(w, ws)
	b.Linear(y, x, w, kernels.Epilogue{})
	got := make([]float32, 15)
	if err := b.Download(got, y); err != nil {
		t.Fatal(err)
	}
	for i, g := range got {
		var want float32
		for k0 := 0; k0 < k; k0 += stageTerms {
			var block float32
			for q := k0; q < min(k, k0+stageTerms); q++ {
				block += float32(xs[i/3*k+q] * ws[i%3*k+q])
			}
			want += block
		}
		if g != want {
			t.Fatalf("element %d is %v, want %v", i, g, want)
		}
	}
}
