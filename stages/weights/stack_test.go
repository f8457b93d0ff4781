package weights_test

import (
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// TestStack: vectors become the rows of one tensor, in the type that they have or are rounded to; vectors of two types become
// the wider type. Vectors that do not fit are listed by their own names.
func TestStack(t *testing.T) {
	half := safetensors.Tensor{DType: "BF16", Shape: []int{2}, Data: []byte{0x80, 0x3f, 0x00, 0xc0}} // 1, -2
	f := nntest.Encode(t, map[string]safetensors.Tensor{
		"attn.q": nntest.Tensor([]float32{1.001, 2}, 2), "attn.k": nntest.Tensor([]float32{3, 4}, 2),
		"attn.half": half, "attn.long": nntest.Tensor(make([]float32, 3), 3),
	})
	be := cpu.New(1)
	w := weights.NewWeights(be, f)
	sub := w.Sub("attn")
	for _, c := range []struct {
		w     *weights.Weights
		names []string
		dt    kernels.DType
		want  []float32
	}{
		{sub, []string{"q", "k"}, kernels.F32, []float32{1.001, 2, 3, 4}},
		{sub.As(kernels.BF16), []string{"k", "q"}, kernels.BF16, []float32{3, 4, 1, 2}},
		{sub, []string{"half", "half"}, kernels.BF16, []float32{1, -2, 1, -2}},
		{sub, []string{"half", "k"}, kernels.F32, []float32{1, -2, 3, 4}},
		{sub.As(kernels.F16), []string{"k", "half"}, kernels.F16, []float32{3, 4, 1, -2}},
	} {
		got := c.w.Stack(2, c.names...)
		if got.DType != c.dt || !slices.Equal(got.Shape, []int{2, 2}) || !slices.Equal(nntest.Values(t, be, got), c.want) {
			t.Errorf("%v: %v %v, want %v %v", c.names, got.DType, got.Shape, c.dt, c.want)
		}
	}
	if bad := sub.Stack(2, "long", "none"); !bad.IsZero() {
		t.Error("vectors that do not fit were taken")
	}
	err := w.Check()
	for _, want := range []string{`missing     "attn.none" [2]`, `wrong shape "attn.long" [3], want [2]`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %s", err, want)
		}
	}
	shapes := weights.ShapesOnly()
	if s := shapes.Stack(5, "a", "b"); !slices.Equal(s.Shape, []int{2, 5}) || len(shapes.Requested()["b"]) != 1 {
		t.Errorf("shapes only: %v, %v", s.Shape, shapes.Requested())
	}
}
