package kerneltest

import (
	"fmt"
	"testing"

	"latentbeam/kernels"
)

// testLayouts: the memory layout of operands does not change a bit of the result. It includes many short rows, like those of
// attention heads, because backends may compute several such rows in one call if the distance between rows is constant.
func testLayouts(t *testing.T, newBackend func(int) kernels.Backend) {
	for _, dt := range dtypes {
		for _, d := range []int{2, 22, 64, 72, 300} {
			f := newFixture(t, newBackend(2))
			x, w := f.random(dt, 2, 5, 3, d), f.random(dt, d)
			cos, sin := f.random(dt, 5, 1, d/2), f.random(dt, 5, 1, d/2)
			for _, op := range []struct {
				name string
				run  func(l layout, dst, x tensor)
			}{
				{"rms norm", func(_ layout, dst, x tensor) {
					f.Norm(dst, x, kernels.NormSpec{Kind: kernels.RMSNorm, Eps: 1e-6, Weight: f.operand(dt, dense, w)})
				}},
				{"layer norm", func(l layout, dst, x tensor) {
					mod := f.operand(dt, l, w).Expand(2, 5, 3, d)
					f.Norm(dst, x, kernels.NormSpec{Eps: 1e-6, Scale: mod, Shift: mod})
				}},
				{"rope", func(l layout, dst, x tensor) {
					shape := []int{2, 5, 3, d / 2}
					f.Rope(dst, x, f.operand(dt, l, cos).Expand(shape...), f.operand(dt, l, sin).Expand(shape...))
				}},
			} {
				var want []float32
				for _, l := range layouts {
					dst, _ := f.placeView(dt, l, x.shape)
					op.run(l, dst, f.operand(dt, l, x))
					got := make([]float32, dst.Len())
					if err := f.Download(got, dst); err != nil {
						t.Fatal(err)
					}
					if want == nil {
						want = got
					}
					sameBits(t, fmt.Sprint(op.name, " of ", dt, ", rows of ", d, ", ", l), got, want)
				}
			}
		}
	}
}
