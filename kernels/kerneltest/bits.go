package kerneltest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"latentbeam/kernels"
)

type (
	device = kernels.Backend
	tensor = kernels.Tensor
)

// workload computes n entries of an operation from host data and returns the result of each entry. data contains the entries one
// after the other, weights the values that all entries share.
type workload struct {
	name    string
	in, out int // elements per entry
	weights int
	int8    bool // only for devices with the capability Int8
	run     func(b device, dst, x, w tensor, n int)
}

// workloads are operations whose rows must be independent of each other.
func workloads() []workload { return slices.Concat(linearLoads(), normLoads(), spaceLoads()) }

func linearLoads() []workload {
	const k, n = 300, 37
	return []workload{
		{"int8 linear", k, n, n * k, true, func(b device, dst, x, w tensor, rows int) {
			b.Linear(dst, x, w.Reshape(n, k), kernels.Epilogue{Int8: true, Parts: []int{96}})
		}},
		{"linear", k, n, n * k, false, func(b device, dst, x, w tensor, rows int) {
			b.Linear(dst, x, w.Reshape(n, k), kernels.Epilogue{Act: kernels.GELUTanh})
		}},
		{"bf16 linear", k, n, n * k, false, func(b device, dst, x, w tensor, rows int) {
			half := b.Alloc(kernels.BF16, n, k)
			b.Copy(half, w.Reshape(n, k))
			b.Linear(dst, x, half, kernels.Epilogue{})
		}},
		{"long bf16 linear", 1111, 83, 83 * 1111, false, func(b device, dst, x, w tensor, rows int) {
			xh, wh := b.Alloc(kernels.BF16, rows, 1111), b.Alloc(kernels.BF16, 83, 1111)
			b.Copy(xh, x)
			b.Copy(wh, w.Reshape(83, 1111))
			b.Linear(dst, xh, wh, kernels.Epilogue{Act: kernels.SiLU})
		}},
	}
}

func normLoads() []workload {
	const k = 300
	return []workload{
		{"layer norm", k, k, k, false, func(b device, dst, x, w tensor, rows int) {
			b.Norm(dst, x, kernels.NormSpec{Eps: 1e-6, Weight: w})
		}},
		{"rms norm of bf16", 72, 72, 72, false, func(b device, dst, x, w tensor, rows int) {
			half := b.Alloc(kernels.BF16, rows, 72)
			b.Copy(half, x)
			b.Norm(half, half, kernels.NormSpec{Kind: kernels.RMSNorm, Eps: 1e-6, Weight: w, Act: kernels.SiLU})
			b.Copy(dst, half)
		}},
		{"modulated layer norm of bf16", 88, 88, 2 * 88, false, func(b device, dst, x, w tensor, rows int) {
			half := b.Alloc(kernels.BF16, rows, 88)
			b.Copy(half, x)
			mod := w.Reshape(2, 1, 88).Expand(2, rows, 88)
			b.Norm(half, half, kernels.NormSpec{Eps: 1e-6, Scale: mod.Index(0), Shift: mod.Index(1)})
			b.Copy(dst, half)
		}},
		{"rope of bf16", 2 * 22, 2 * 22, 11, false, func(b device, dst, x, w tensor, rows int) {
			half := b.Alloc(kernels.BF16, rows, 2, 22)
			b.Copy(half, x.Reshape(rows, 2, 22))
			b.Rope(half, half, w.Expand(rows, 2, 11), w.Expand(rows, 2, 11))
			b.Copy(dst.Reshape(rows, 2, 22), half)
		}},
		{"rms norm of bf16 with rotation", 2 * 72, 2 * 72, 72, false, func(b device, dst, x, w tensor, rows int) {
			half := b.Alloc(kernels.BF16, rows, 2, 72)
			b.Copy(half, x.Reshape(rows, 2, 72))
			angles := w.Narrow(0, 0, 36).Expand(rows, 2, 36)
			b.Norm(half, half, kernels.NormSpec{Kind: kernels.RMSNorm, Eps: 1e-6, Weight: w, Cos: angles, Sin: angles})
			b.Copy(dst.Reshape(rows, 2, 72), half)
		}},
		{"group norm", 9 * 9 * 8, 9 * 9 * 8, 8, false, func(b device, dst, x, w tensor, rows int) {
			b.Norm(dst.Reshape(rows, 9, 9, 8), x.Reshape(rows, 9, 9, 8),
				kernels.NormSpec{Kind: kernels.GroupNorm, Groups: 2, Eps: 1e-6, Weight: w})
		}},
		{"rope", 2 * 22, 2 * 22, 11, false, func(b device, dst, x, w tensor, rows int) {
			w = w.Expand(rows, 2, 11)
			b.Rope(dst.Reshape(rows, 2, 22), x.Reshape(rows, 2, 22), w, w)
		}},
	}
}

// spaceLoads are convolutions and attention.
func spaceLoads() []workload {
	return []workload{
		{"conv", 5 * 4 * 7, 5 * 4 * 3, 3 * 7 * 9, false, func(b device, dst, x, w tensor, rows int) {
			b.Conv(dst.Reshape(rows, 5, 4, 3), x.Reshape(rows, 5, 4, 7), w.Reshape(3, 7, 3, 3),
				kernels.ConvSpec{Top: 1, Left: 1, Bottom: 1, Right: 1})
		}},
		{"conv of videos", 3 * 4 * 5 * 7, 3 * 4 * 5 * 3, 3 * 7 * 27, false, func(b device, dst, x, w tensor, rows int) {
			b.Conv(dst.Reshape(rows, 3, 4, 5, 3), x.Reshape(rows, 3, 4, 5, 7), w.Reshape(3, 7, 3, 3, 3),
				kernels.ConvSpec{Front: 2, Top: 1, Left: 1, Bottom: 1, Right: 1})
		}},
		{"bf16 conv over time", 3 * 5 * 4 * 6, 3 * 5 * 4 * 10, 10 * 6 * 27, false, func(b device, dst, x, w tensor, rows int) {
			xh, wh := b.Alloc(kernels.BF16, rows, 3, 5, 4, 6), b.Alloc(kernels.BF16, 10, 6, 3, 3, 3)
			b.Copy(xh, x.Reshape(rows, 3, 5, 4, 6))
			b.Copy(wh, w.Reshape(10, 6, 3, 3, 3))
			b.Conv(dst.Reshape(rows, 3, 5, 4, 10), xh, wh,
				kernels.ConvSpec{Front: 2, Top: 1, Left: 1, Bottom: 1, Right: 1})
		}},
		{"attention over shared keys", 8, 8, 2 * 40 * 8, false, func(b device, dst, x, w tensor, rows int) {
			kv := w.Reshape(2, 1, 40, 2, 4)
			b.Attention(dst.Reshape(1, rows, 2, 4), x.Reshape(1, rows, 2, 4), kv.Index(0), kv.Index(1),
				kernels.AttentionSpec{Scale: 0.5})
		}},
		{"int8 attention over shared keys", 20, 20, 2 * 530 * 20, true, func(b device, dst, x, w tensor, rows int) {
			kv := w.Reshape(2, 1, 530, 2, 10)
			b.Attention(dst.Reshape(1, rows, 2, 10), x.Reshape(1, rows, 2, 10), kv.Index(0), kv.Index(1),
				kernels.AttentionSpec{Scale: 0.5, Int8: true})
		}},
		{"int8 attention in batches", 13 * 2 * 4, 13 * 2 * 4, 1, true, func(b device, dst, x, w tensor, rows int) {
			q := x.Reshape(rows, 13, 2, 4)
			b.Attention(dst.Reshape(rows, 13, 2, 4), q, q, q, kernels.AttentionSpec{Scale: 0.5, Int8: true})
		}},
		{"attention in batches", 13 * 2 * 4, 13 * 2 * 4, 1, false, func(b device, dst, x, w tensor, rows int) {
			q := x.Reshape(rows, 13, 2, 4)
			b.Attention(dst.Reshape(rows, 13, 2, 4), q, q, q, kernels.AttentionSpec{Scale: 0.5})
		}},
	}
}

// testSameBits: an entry gives the same bits alone, in a block, at any position, and with 1, 2 and 8 threads.
func testSameBits(t *testing.T, newBackend func(int) kernels.Backend) {
	const entries = 77
	for _, load := range workloads() {
		t.Run(load.name, func(t *testing.T) {
			f := newFixture(t, newBackend(1))
			if load.int8 && !f.Capabilities().Int8 {
				t.Skip("this device has no products of 8-bit numbers")
			}
			data, weights := f.random(kernels.F32, entries*load.in), f.random(kernels.F32, load.weights)
			want := f.entries(load, data.data, weights)
			for _, threads := range []int{1, 2, 8} {
				g := newFixture(t, newBackend(threads))
				for _, part := range [][2]int{
					{0, entries}, {0, 1}, {1, 2}, {76, 77}, {3, 8}, {5, 70}, {13, 77}, {62, 66},
				} {
					got := g.entries(load, data.data[part[0]*load.in:part[1]*load.in], weights)
					sameBits(t, fmt.Sprintf("entries %v at %d threads", part, threads), got,
						want[part[0]*load.out:part[1]*load.out])
				}
			}
		})
	}
	t.Run("KeyLens", func(t *testing.T) { testKeyLens(t, newBackend) })
	t.Run("Layouts", func(t *testing.T) { testLayouts(t, newBackend) })
	t.Run("AttentionRanges", func(t *testing.T) { testAttentionRanges(t, newBackend) })
}

// entries runs load over data.
func (f *fixture) entries(load workload, data []float64, weights array) []float32 {
	f.Helper()
	end := f.Scope()
	defer end()
	n := len(data) / load.in
	x := f.operand(kernels.F32, dense, array{[]int{n, load.in}, data})
	dst := f.Alloc(kernels.F32, n, load.out)
	load.run(f.Backend, dst, x, f.operand(kernels.F32, dense, weights), n)
	got := make([]float32, n*load.out)
	if err := f.Download(got, dst); err != nil {
		f.Fatal(err)
	}
	return got
}

func sameBits(t *testing.T, name string, got, want []float32) {
	t.Helper()
	for i, w := range want {
		if math.Float32bits(got[i]) != math.Float32bits(w) {
			t.Fatalf("%s: element %d is %x, want %x", name, i, math.Float32bits(got[i]), math.Float32bits(w))
		}
	}
}

// testKeyLens: the result of an entry depends on its own length only, not on the lengths of other entries and not on
// the padding of the batch.
func testKeyLens(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, c := range []struct {
		dt kernels.DType
		d  int
	}{{kernels.F32, 8}, {kernels.BF16, 72}, {kernels.F16, 64}} {
		t.Run(fmt.Sprintf("%v of %d", c.dt, c.d), func(t *testing.T) { compareKeyLens(newFixture(t, newBackend(2)), c.dt, c.d) })
	}
}

func compareKeyLens(f *fixture, dt kernels.DType, d int) {
	const lq, lk, h = 6, 300, 2
	q, k := f.random(dt, 3, lq, h, d), f.random(dt, 3, lk, h, d)
	qt, kt := f.operand(dt, dense, q), f.operand(dt, dense, k)
	compute := func(entries, keys int, lens ...int) []float32 {
		dst := f.Alloc(kernels.F32, entries, lq, h, d)
		kk := kt.Narrow(0, 0, entries).Narrow(1, 0, keys)
		f.Attention(dst, qt.Narrow(0, 0, entries), kk, kk, kernels.AttentionSpec{Scale: 1, KeyLens: lens})
		got := make([]float32, dst.Len())
		if err := f.Download(got, dst); err != nil {
			f.Fatal(err)
		}
		return got[:lq*h*d]
	}
	for _, n := range []int{1, 9, 16, 31, 32, 33, 64, 65, 128, 129, 256, 257, 299} {
		want := compute(1, n)
		sameBits(f.T, fmt.Sprint(n, " keys of a padded list"), compute(1, lk, n), want)
		sameBits(f.T, fmt.Sprint(n, " keys beside longer and shorter lists"), compute(3, lk, n, 300, 2), want)
	}
}
