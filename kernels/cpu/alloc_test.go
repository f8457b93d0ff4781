package cpu

import (
	"testing"

	"latentbeam/kernels"
)

// TestNothingIsAllocated: attentions and operations on rows allocate no Go memory after their scratch memory was allocated once.
func TestNothingIsAllocated(t *testing.T) {
	be := New(2)
	for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
		qkv := filled(be, dt, 1, 64, 3, 4, 72)
		out := be.Alloc(dt, 1, 64, 4, 72)
		part := func(i int) kernels.Tensor { return qkv.Narrow(2, i, 1).Reshape(1, 64, 4, 72) }
		q, k, v := part(0), part(1), part(2)
		qt, kt, vt := q.Permute(1, 0, 2, 3), k.Permute(1, 0, 2, 3), v.Permute(1, 0, 2, 3) // 64 times one token
		ot := out.Permute(1, 0, 2, 3)
		w, angles := filled(be, kernels.F32, 72), filled(be, kernels.F32, 36).Expand(1, 64, 4, 36)
		scale := filled(be, dt, 72).Expand(1, 64, 4, 72)
		host, lens := make([]float32, 64*4*72), []int{33}
		for name, f := range map[string]func(){
			"attention":  func() { be.Attention(out, q, k, v, kernels.AttentionSpec{Scale: 0.1, KeyLens: lens}) },
			"short":      func() { be.Attention(ot, qt, kt, vt, kernels.AttentionSpec{Scale: 0.1}) },
			"layer norm": func() { be.Norm(out, q, kernels.NormSpec{Weight: w, Scale: scale, Shift: scale}) },
			"group norm": func() { be.Norm(out, q, kernels.NormSpec{Kind: kernels.GroupNorm, Groups: 8, Weight: w}) },
			"norm with rotation": func() {
				be.Norm(out, q, kernels.NormSpec{Kind: kernels.RMSNorm, Weight: scale, Cos: angles, Sin: angles})
			},
			"rope":        func() { be.Rope(out, q, angles, angles) },
			"unary":       func() { be.Unary(out, q, kernels.SiLU) },
			"binary":      func() { be.Binary(out, q, k, kernels.Add) },
			"copy":        func() { be.Copy(out, k) },
			"up and down": func() { be.Upload(out, host); _ = be.Download(host, out) },
		} {
			if n := testing.AllocsPerRun(50, f); n > 0 {
				t.Errorf("%v %s: %v allocations per call, want 0", dt, name, n)
			}
		}
	}
	if err := be.Wait(); err != nil {
		t.Fatal(err)
	}
}
