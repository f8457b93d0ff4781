//go:build cuda && linux

package cuda

// #include "kern/kernels.h"
import "C"

import "latentbeam/kernels"

// productTrials has a trial for each kernel of matrix products: tiles that end before their full size, and more slices than the
// pipeline holds.
func productTrials() (out []trial) {
	const m, n, k = 70, 130, 456
	for kernel := C.lb_i32(C.LB_GEMM_WG_BF16_128); kernel < C.LB_GEMM_KERNELS; kernel++ {
		dt := kernels.BF16
		if kernel >= C.LB_GEMM_WG_F16_128 {
			dt = kernels.F16
		}
		var ep kernels.Epilogue
		if (kernel-C.LB_GEMM_WG_BF16_128)%4 >= 2 {
			ep.Parts = []int{72, 200}
		}
		run := func(b *Backend) ([]float32, error) {
			return b.trial([]int{m, n}, dt, []int{m, k}, []int{n, k}, func(dst, x, w kernels.Tensor) {
				b.linear(dst, x, w, ep, func(pick C.enum_lb_gemm_kernel) C.enum_lb_gemm_kernel {
					if b.eng.warpgroups {
						return C.enum_lb_gemm_kernel(kernel)
					}
					return pick
				})
			})
		}
		out = append(out, trial{C.GoString(C.lb_gemm_name(C.enum_lb_gemm_kernel(kernel))), run, 1e-3})
	}
	return out
}

// convTrials has a trial for each kernel of convolutions: taps outside the image, and channels that end inside a slice.
func convTrials() (out []trial) {
	const h, w, cin, cout = 9, 10, 72, 70
	for kernel := C.lb_i32(C.LB_CONV_WG_BF16_128); kernel < C.LB_CONV_KERNELS; kernel++ {
		dt := kernels.BF16
		if kernel >= C.LB_CONV_WG_F16_128 {
			dt = kernels.F16
		}
		around := kernels.ConvSpec{Top: 1, Left: 1, Bottom: 1, Right: 1}
		run := func(b *Backend) ([]float32, error) {
			return b.trial([]int{1, h, w, cout}, dt, []int{1, h, w, cin}, []int{cout, cin, 3, 3},
				func(dst, x, w kernels.Tensor) {
					b.conv(dst, x, w, around, func(pick C.enum_lb_conv_kernel) C.enum_lb_conv_kernel {
						if b.eng.warpgroups {
							return C.enum_lb_conv_kernel(kernel)
						}
						return pick
					})
				})
		}
		out = append(out, trial{C.GoString(C.lb_conv_name(C.enum_lb_conv_kernel(kernel))), run, 1e-3})
	}
	return out
}

// trial calls compute to fill an fp32 tensor from two tensors of type dt, and returns its elements.
func (b *Backend) trial(shape []int, dt kernels.DType, first, second []int,
	compute func(dst, x, w kernels.Tensor)) ([]float32, error) {
	defer b.Scope()()
	dst, x, w := b.Alloc(kernels.F32, shape...), b.Alloc(dt, first...), b.Alloc(dt, second...)
	got := make([]float32, dst.Len())
	b.Upload(x, numbers(x.Len(), 1))
	b.Upload(w, numbers(w.Len(), 2))
	b.Upload(dst, got) // so that old memory cannot look like a right result
	compute(dst, x, w)
	return got, b.Download(got, dst)
}

// numbers returns n values between -1 and 1 that look random.
func numbers(n, seed int) []float32 {
	out := make([]float32, n)
	state := uint32(seed)
	for i := range out {
		state = state*1664525 + 1013904223
		out[i] = float32(int32(state)>>16) / (1 << 15)
	}
	return out
}
