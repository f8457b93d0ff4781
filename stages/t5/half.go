package t5

import (
	"math"

	"latentbeam/kernels"
)

// The largest value of fp16, and the limit to which transformers clamps after an overflow.
const (
	maxF16     = 65504
	clampedF16 = maxF16 - 1000
)

// widen converts the residual stream x (sum L, d_model) from fp16 to fp32, in the scope open at the call. It clamps values
// after an overflow: if a prompt has an infinity, all values of this prompt are limited to clampedF16. (transformers checks the
// whole batch; then other prompts in the batch could change a prompt.)
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
		values[i] = min(max(v, -limit), limit) // NaN stays NaN
	}
}
