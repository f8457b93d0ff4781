package weights_test

import (
	"slices"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// TestAs: As rounds weights on loading, also those of a Sub, and widens none.
func TestAs(t *testing.T) {
	long := nntest.Hash("long", 3, 1<<20+5) // more than one block of the conversion
	f := nntest.Encode(t, map[string]safetensors.Tensor{
		"a.wide":   nntest.Tensor(long, len(long)),
		"a.narrow": {DType: "BF16", Shape: []int{2}, Data: []byte{0x80, 0x3f, 0x00, 0x40}},
		"a.half":   {DType: "F16", Shape: []int{2}, Data: []byte{0x00, 0x3c, 0x06, 0x3c}}, // 1 and 1 + 6/1024
	})
	be := cpu.New(1)
	w := weights.NewWeights(be, f)
	for _, dt := range []kernels.DType{kernels.BF16, kernels.F16} {
		got := w.As(dt).Sub("a").Tensor("wide", len(long))
		want := make([]float32, len(long))
		for i, v := range long {
			want[i] = dt.Round(v)
		}
		if got.DType != dt || !slices.Equal(nntest.Values(t, be, got), want) || slices.Equal(want, long) {
			t.Errorf("as %v: type %v, or other values than rounded", dt, got.DType)
		}
	}
	if got := w.Sub("a").Tensor("wide", len(long)); got.DType != kernels.F32 {
		t.Errorf("as it is stored: %v", got.DType)
	}
	if got := w.As(kernels.F32).Sub("a").Tensor("narrow", 2); got.DType != kernels.BF16 {
		t.Errorf("a narrow tensor was widened to %v", got.DType)
	}
	for _, c := range []struct {
		name string
		as   kernels.DType
		want []float32
	}{{"narrow", kernels.F16, []float32{1, 2}}, {"half", kernels.BF16, []float32{1, 1.0078125}}} {
		if got := nntest.Values(t, be, w.As(c.as).Sub("a").Tensor(c.name, 2)); !slices.Equal(got, c.want) {
			t.Errorf("%s as %v is %v, want %v", c.name, c.as, got, c.want)
		}
	}
}

// TestValues: Values reads a vector to the host. A file may have no such vector, but not one of another shape.
func TestValues(t *testing.T) {
	f := nntest.Encode(t, map[string]safetensors.Tensor{
		"freqs": nntest.Tensor([]float32{1, 0.5}, 2),
		"half":  {DType: "BF16", Shape: []int{2}, Data: []byte{0x80, 0x3f, 0x00, 0x40}},
		"steps": {DType: "I64", Shape: []int{1}, Data: make([]byte, 8)},
	})
	w := weights.NewWeights(cpu.New(1), f)
	if got := w.Values("freqs", 2); !slices.Equal(got, []float32{1, 0.5}) {
		t.Errorf("freqs are %v", got)
	}
	if got := w.Values("half", 2); !slices.Equal(got, []float32{1, 2}) {
		t.Errorf("half are %v", got)
	}
	if got := w.Values("absent", 7); got != nil {
		t.Errorf("absent is %v", got)
	}
	w.Values("steps", 1)
	if err := w.Check(); err == nil || w.Requested()["absent"][0] != 7 {
		t.Error("a vector of integers was taken, or a missing one not counted as asked for")
	}
	w = weights.NewWeights(cpu.New(1), f)
	w.Values("freqs", 3)
	w.Values("half", 2)
	w.Values("steps", 1)
	nntest.WantError(t, "shape", w.Check(), `wrong shape "freqs" F32 [2], want [3]`)
}
