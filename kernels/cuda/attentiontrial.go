//go:build cuda && linux

package cuda

// #include "kern/kernels.h"
import "C"

import "latentbeam/kernels"

// attentionTrials has a trial for each attention kernel: queries and keys directly from one product, tiles and passes that end
// before their full size, more stages than the pipeline holds, and blocks that process a second tile.
func attentionTrials() (out []trial) {
	const length, heads, blocks = 270, 2, 4
	for kernel := C.enum_lb_attn_kernel(C.LB_ATTN_WG_BF16_64); kernel < C.LB_ATTN_KERNELS; kernel++ {
		dt, d, near := kernels.BF16, 64, 4e-3
		if kernel >= C.LB_ATTN_WG_F16_64 {
			dt, near = kernels.F16, 5e-4
		}
		if (kernel-C.LB_ATTN_WG_BF16_64)%2 == 1 {
			d = 72
		}
		run := func(b *Backend) ([]float32, error) {
			defer b.Scope()()
			qkv := b.Alloc(dt, 1, length, 3, heads, d)
			dst := b.Alloc(kernels.F32, 1, length, heads, d)
			b.Upload(qkv, numbers(length*3*heads*d, 3))
			b.Upload(dst, make([]float32, length*heads*d))
			part := func(i int) kernels.Tensor { return qkv.Narrow(2, i, 1).Reshape(dst.Shape...) }
			b.attention(dst, part(0), part(1), part(2), kernels.AttentionSpec{Scale: 0.5}, blocks)
			got := make([]float32, length*heads*d)
			return got, b.Download(got, dst)
		}
		out = append(out, trial{C.GoString(C.lb_attn_name(kernel)), run, near})
	}
	return out
}
