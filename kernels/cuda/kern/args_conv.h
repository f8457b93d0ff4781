/* Convolutions, channels last: see Backend.Conv. An image is a video of one frame. */
#ifndef LB_ARGS_CONV_H
#define LB_ARGS_CONV_H
#include "args_gemm.h"

/* lb_conv_args: x has the axes (N, T, H, W) and its channels at col. w has strides for output channel, tap and input
 * channel; taps are numbered through (KT, KH, KW). The convolution is fast if w has contiguous input channels and all strides
 * are multiples of 8 channels: (Cout, taps, Cin), into which the host copies a weight (Cout, Cin, taps) once. */
typedef struct {
	lb_shape out; /* (N, T', H', W'): 4 axes */
	lb_i32 cout, cin;
	lb_i32 depth, height, width; /* of x */
	lb_i32 kt, kh, kw;
	lb_i32 stride_t, stride, up; /* up: factor by which nearest neighbours enlarge height and width before the kernel; 1: none */
	lb_i32 front, top, left;     /* zeros before the first frame, row and column; those after the last follow from the shape of out */
	lb_view x;
	lb_u64 w;
	lb_i64 w_row, w_tap, w_col;
	lb_i32 w_dtype;
	lb_i32 zero_;
	lb_epilogue ep; /* views have the axes of out; bias and residual only */
} lb_conv_args;

/* The kernels, by element type and tile (rows x columns): 128 x 128, 128 x 32 for few output channels, 64 x 64 for few
 * pixels. WG: with warpgroups, on sm_90a; these give other bits than the others. */
enum lb_conv_kernel {
	LB_CONV_BF16_128, LB_CONV_BF16_32, LB_CONV_BF16_64, LB_CONV_F16_128, LB_CONV_F16_32, LB_CONV_F16_64,
	LB_CONV_F32_128, LB_CONV_F32_32,
	LB_CONV_WG_BF16_128, LB_CONV_WG_BF16_64, LB_CONV_WG_F16_128, LB_CONV_WG_F16_64,
	LB_CONV_KERNELS
};

static inline const char *lb_conv_name(enum lb_conv_kernel k)
{
	static const char *const names[] = {"conv_bf16_128", "conv_bf16_32", "conv_bf16_64", "conv_f16_128", "conv_f16_32",
		"conv_f16_64", "conv_f32_128", "conv_f32_32", "conv_wg_bf16_128", "conv_wg_bf16_64", "conv_wg_f16_128", "conv_wg_f16_64"};
	return names[k];
}

/* lb_conv_pick returns the kernel for a device of compute capability arch. Operands of one 16-bit type are computed on the
 * tensor cores, all others in fp32. The tile changes no bit of the result. Warpgroups (arch 90) compute all weights except
 * those that would leave half of their slices or tiles empty. This depends only on the weight. */
enum { LB_CONV_WG_LEAST = 33 };
static inline enum lb_conv_kernel lb_conv_pick(const lb_conv_args *a, lb_i32 arch)
{
	lb_i64 m = lb_rows_of(&a->out);
	lb_i32 large = lb_ceil(m, 128) * lb_ceil(a->cout, 128) >= LB_GEMM_FILL, k;
	if (a->x.dtype != a->w_dtype || a->w_dtype == LB_F32 || (a->w_dtype == LB_BF16 && arch < 80))
		return large ? LB_CONV_F32_128 : LB_CONV_F32_32;
	if (arch == 90 && a->cin >= LB_CONV_WG_LEAST && a->cout >= LB_CONV_WG_LEAST) {
		k = a->w_dtype == LB_BF16 ? LB_CONV_WG_BF16_128 : LB_CONV_WG_F16_128;
		return (enum lb_conv_kernel)(k + (large ? 0 : 1));
	}
	k = a->w_dtype == LB_BF16 ? LB_CONV_BF16_128 : LB_CONV_F16_128;
	return (enum lb_conv_kernel)(k + (a->cout <= 32 ? 1 : large ? 0 : 2));
}

static inline lb_launch lb_conv_launch(const lb_conv_args *a, enum lb_conv_kernel k)
{
	lb_i64 m = lb_rows_of(&a->out), n = a->cout;
	switch (k) {
	case LB_CONV_F32_128:
		return lb_launch_of(lb_ceil(m, 128) * lb_ceil(n, 128), 1, 1, 256, lb_tile_shared(128, 128, 2, 16 * 4 + 2));
	case LB_CONV_F32_32:
		return lb_launch_of(lb_ceil(m, 32) * lb_ceil(n, 32), 1, 1, 64, lb_tile_shared(32, 32, 2, 16 * 4 + 8));
	case LB_CONV_BF16_128:
	case LB_CONV_F16_128:
		return lb_launch_of(lb_ceil(m, 128) * lb_ceil(n, 128), 1, 1, 256, lb_tile_shared(128, 128, LB_STAGES, 64));
	case LB_CONV_BF16_32:
	case LB_CONV_F16_32:
		return lb_launch_of(lb_ceil(m, 128) * lb_ceil(n, 32), 1, 1, 128, lb_tile_shared(128, 32, LB_STAGES, 64));
	case LB_CONV_WG_BF16_128:
	case LB_CONV_WG_F16_128:
		return lb_launch_of(lb_ceil(m, 128) * lb_ceil(n, 128), 1, 1, 256, LB_WG_STAGES * (128 + 128) * 128);
	case LB_CONV_WG_BF16_64:
	case LB_CONV_WG_F16_64:
		return lb_launch_of(lb_ceil(m, 64) * lb_ceil(n, 64), 1, 1, 128, LB_WG_STAGES_SMALL * (64 + 64) * 128);
	default:
		return lb_launch_of(lb_ceil(m, 64) * lb_ceil(n, 64), 1, 1, 128, lb_tile_shared(64, 64, LB_STAGES, 64));
	}
}

#endif
