//go:build cuda && linux

package cuda

import (
	"testing"

	"latentbeam/kernels"
)

// TestQueriesAndKeys: queries and keys are views of one tensor, the projection qkv. Norm normalises and rotates both by a single launch, of the
// kernel qknorm where this kernel supports their type and size, else of norm_any.
func TestQueriesAndKeys(t *testing.T) {
	for _, c := range []struct {
		name   string
		dt     kernels.DType
		qkv    []int  // (..., 3, H, D)
		angles []int  // (..., D/2), of as many axes as qkv has; none: no rotation
		want   string // kernel
	}{
		{"patches of a frame", kernels.BF16, []int{2, 5, 9, 3, 4, 72}, nil, "qknorm_128"},
		{"patches with angles", kernels.BF16, []int{2, 5, 9, 3, 4, 72}, []int{1, 1, 9, 1, 1, 36}, "qknorm_128"},
		{"frames of a patch", kernels.F16, []int{2, 5, 9, 3, 4, 72}, []int{1, 5, 1, 1, 1, 36}, "qknorm_128"},
		{"one frame", kernels.BF16, []int{2, 1, 9, 3, 4, 64}, []int{1, 1, 1, 1, 1, 32}, "qknorm_64"},
		{"windows", kernels.BF16, []int{3, 2, 4, 5, 3, 4, 48}, []int{1, 2, 4, 5, 1, 1, 24}, "qknorm_64"},
		{"one head", kernels.BF16, []int{2, 5, 9, 3, 1, 72}, []int{1, 5, 1, 1, 1, 36}, "norm_any"},
		{"fp32", kernels.F32, []int{2, 5, 9, 3, 4, 72}, []int{1, 5, 1, 1, 1, 36}, "norm_any"},
		{"wide heads", kernels.BF16, []int{1, 1, 9, 3, 2, 160}, []int{1, 1, 9, 1, 1, 80}, "norm_any"},
		{"heads that are no whole vectors", kernels.BF16, []int{1, 1, 9, 3, 2, 22}, []int{1, 1, 9, 1, 1, 11}, "norm_any"},
	} {
		t.Run(c.name, func(t *testing.T) {
			be, err := New(0, Options{})
			if err != nil {
				t.Skip(err)
			}
			defer be.Scope()()
			b := be.(*Backend)
			qk := b.Alloc(c.dt, c.qkv...).Narrow(-3, 0, 2)
			spec := kernels.NormSpec{Kind: kernels.RMSNorm, Eps: 1e-6}
			spec.Weight = b.Alloc(c.dt, 2, 1, qk.Dim(-1)).Expand(qk.Shape...)
			if c.angles != nil {
				half := append([]int(nil), qk.Shape...)
				half[len(half)-1] /= 2
				spec.Cos, spec.Sin = b.Alloc(c.dt, c.angles...).Expand(half...), b.Alloc(c.dt, c.angles...).Expand(half...)
			}
			if err := b.Wait(); err != nil {
				t.Fatal(err)
			}
			b.Norm(qk, qk, spec)
			if len(b.pending) != 1 || b.pending[0].launch.kernel != c.want {
				t.Errorf("got %d launches, the first of %q; want one of %s", len(b.pending), b.pending[0].launch.kernel, c.want)
			}
			if err := b.Wait(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
