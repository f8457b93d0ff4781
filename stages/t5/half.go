package t5

import (
	"math"

	"latentbeam/kernels"
)

// The largest value of fp16, and what transformers clamps to where something has overflowed.
const (
	maxF16     = 65504
	clampedF16 = maxF16 - 1000
)

// widen returns the residual stream x (sum L, d_model) of fp16 in fp32, in the scope open at the call. What has
// overflowed in it is clamped: with an infinity anywhere in a prompt all of the prompt is brought within
// clampedF16 (transformers looks at the whole batch, which here would let neighbours change a prompt).
func (e *Encoder) widen(be kernels.Backend, x kernels.Tensor, ids [][]int32) (kernels.Tensor, error) {
	wide := be.Alloc(kernels.F32, x.Shape...)
	values := make([]float32, x.Len())
	if err := be.Download(values, x); err != nil {
		return wide, err
	}
	start := 0
	for _, row := range ids {
		end := start + len(row)*e.DModel
		clampPrompt(values[start:end])
		start = end
	}
	be.Upload(wide, values)
	return wide, nil
}

func clampPrompt(values []float32) {
	limit := float32(maxF16)
	for _, v := range values {
		if math.IsInf(float64(v), 0) {
			limit = clampedF16
			break
		}
	}
	for i, v := range values {
		values[i] = min(max(v, -limit), limit) // which keeps NaN
	}
}
