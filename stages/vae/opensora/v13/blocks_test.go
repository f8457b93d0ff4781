package v13

import (
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
)

// TestCausalAttention: over several blocks of positions, each position attends to itself and to the positions before it, as
// separate attentions would, and later positions do not change any bit.
func TestCausalAttention(t *testing.T) {
	const c = 32
	be := cpu.New(2)
	names := weights.ShapesOnly()
	loadAttention(names, c)
	a := loadAttention(weights.NewWeights(be, nntest.File(t, names.Requested())), c)
	for _, frames := range []int{1, 4, 10, 11} { // of 16 positions: one block of 64, two whole ones and parts
		n := frames * 16
		values := nntest.Hash("x", 1, n*c)
		got := added(t, be, values, n, c, a.addTo)
		want := added(t, be, values, n, c, func(be kernels.Backend, x kernels.Tensor) { oneByOne(be, a, x) })
		if diff, _ := nntest.MaxDiff(got, want); diff > 1e-5 {
			t.Errorf("%d positions: differs by %g from one query at a time", n, diff)
		}
	}
	q := nntest.Hash("q", 1, 160*c)
	whole := masked(t, be, q, 160, c)
	changed := slices.Clone(q)
	for i := 100 * c; i < len(changed); i++ {
		changed[i] = 5
	}
	if !slices.Equal(masked(t, be, changed, 160, c)[:100*c], whole[:100*c]) {
		t.Error("positions from 100 on change those before")
	}
}

// added uploads x (1, n/16, 4, 4, c) and returns what f makes of it.
func added(
	t *testing.T, be kernels.Backend, values []float32, n, c int, f func(kernels.Backend, kernels.Tensor),
) []float32 {
	t.Helper()
	defer be.Scope()()
	x := be.Alloc(kernels.F32, 1, n/16, 4, 4, c)
	be.Upload(x, values)
	f(be, x)
	out := make([]float32, len(values))
	if err := be.Download(out, x); err != nil {
		t.Fatal(err)
	}
	return out
}

// oneByOne is addTo with every position as an entry of its own.
func oneByOne(be kernels.Backend, a attention, x kernels.Tensor) {
	c := x.Dim(4)
	n := x.Len() / c
	h := a.norm.VideoForward(be, x, kernels.Identity)
	keys := func(conv nn.CausalConv) kernels.Tensor {
		return conv.Forward(be, h).Reshape(1, n, 1, c).Expand(n, n, 1, c)
	}
	lens := make([]int, n)
	for i := range lens {
		lens[i] = i + 1
	}
	mixed := be.Alloc(x.DType, n, 1, 1, c)
	be.Attention(mixed, a.q.Forward(be, h).Reshape(n, 1, 1, c), keys(a.k), keys(a.v),
		kernels.AttentionSpec{Scale: nn.AttentionScale(c), KeyLens: lens})
	a.out.Into(be, x, mixed.Reshape(x.Shape...), x)
}

// masked is the attention of x (n, c) to itself in blocks.
func masked(t *testing.T, be kernels.Backend, values []float32, n, c int) []float32 {
	t.Helper()
	defer be.Scope()()
	x, y := be.Alloc(kernels.F32, 1, n, 1, c), be.Alloc(kernels.F32, 1, n, 1, c)
	be.Upload(x, values)
	attendBefore(be, y, x, x, x)
	out := make([]float32, len(values))
	if err := be.Download(out, y); err != nil {
		t.Fatal(err)
	}
	return out
}
