/* dst = epilogue(x w^T): see Backend.Linear. */
#ifndef LB_ARGS_GEMM_H
#define LB_ARGS_GEMM_H
#include "args.h"

enum { LB_PARTS = 64 }; /* largest number of borders between the parts of a sum */

/* lb_epilogue is applied to finished sums: kernels.Epilogue, or the bias and the residual of a convolution. The axes of
 * its views are those of the rows of dst; the columns are at col. */
typedef struct {
	lb_view dst, gate, residual;
	lb_u64 bias; /* (n), or 0 */
	lb_i64 bias_stride;
	lb_i32 bias_dtype;
	lb_i32 act;
} lb_epilogue;

typedef struct {
	lb_shape rows; /* leading axes of x and dst; their product is M */
	lb_i32 n, k;
	lb_view x;    /* (rows, k) */
	lb_u64 w;     /* (n, k) */
	lb_i64 w_row, w_col;
	lb_i32 w_dtype;
	lb_i32 parts; /* number of borders in part */
	lb_i32 part[LB_PARTS];
	lb_view onto; /* F32 (rows, n), or none */
	lb_epilogue ep;
} lb_gemm_args;

/* The kernels, by element type, rows of a tile (128 x 128, 64 x 64 or 16 x 64), and whether the sum has parts or is added
 * to onto. WG: with warpgroups, on sm_90a; these give other bits than the others. */
enum lb_gemm_kernel {
	LB_GEMM_BF16_128, LB_GEMM_BF16_64, LB_GEMM_BF16_16,
	LB_GEMM_BF16_128_PARTS, LB_GEMM_BF16_64_PARTS, LB_GEMM_BF16_16_PARTS,
	LB_GEMM_F16_128, LB_GEMM_F16_64, LB_GEMM_F16_16,
	LB_GEMM_F16_128_PARTS, LB_GEMM_F16_64_PARTS, LB_GEMM_F16_16_PARTS,
	LB_GEMM_F32_128, LB_GEMM_F32_32,
	LB_GEMM_WG_BF16_128, LB_GEMM_WG_BF16_64, LB_GEMM_WG_BF16_128_PARTS, LB_GEMM_WG_BF16_64_PARTS,
	LB_GEMM_WG_F16_128, LB_GEMM_WG_F16_64, LB_GEMM_WG_F16_128_PARTS, LB_GEMM_WG_F16_64_PARTS,
	LB_GEMM_KERNELS
};

static inline const char *lb_gemm_name(enum lb_gemm_kernel k)
{
	switch (k) {
	case LB_GEMM_BF16_128: return "gemm_bf16_128";
	case LB_GEMM_BF16_64: return "gemm_bf16_64";
	case LB_GEMM_BF16_16: return "gemm_bf16_16";
	case LB_GEMM_BF16_128_PARTS: return "gemm_bf16_128_parts";
	case LB_GEMM_BF16_64_PARTS: return "gemm_bf16_64_parts";
	case LB_GEMM_BF16_16_PARTS: return "gemm_bf16_16_parts";
	case LB_GEMM_F16_128: return "gemm_f16_128";
	case LB_GEMM_F16_64: return "gemm_f16_64";
	case LB_GEMM_F16_16: return "gemm_f16_16";
	case LB_GEMM_F16_128_PARTS: return "gemm_f16_128_parts";
	case LB_GEMM_F16_64_PARTS: return "gemm_f16_64_parts";
	case LB_GEMM_F16_16_PARTS: return "gemm_f16_16_parts";
	case LB_GEMM_F32_128: return "gemm_f32_128";
	case LB_GEMM_F32_32: return "gemm_f32_32";
	case LB_GEMM_WG_BF16_128: return "gemm_wg_bf16_128";
	case LB_GEMM_WG_BF16_64: return "gemm_wg_bf16_64";
	case LB_GEMM_WG_BF16_128_PARTS: return "gemm_wg_bf16_128_parts";
	case LB_GEMM_WG_BF16_64_PARTS: return "gemm_wg_bf16_64_parts";
	case LB_GEMM_WG_F16_128: return "gemm_wg_f16_128";
	case LB_GEMM_WG_F16_64: return "gemm_wg_f16_64";
	case LB_GEMM_WG_F16_128_PARTS: return "gemm_wg_f16_128_parts";
	case LB_GEMM_WG_F16_64_PARTS: return "gemm_wg_f16_64_parts";
	default: return 0;
	}
}

static inline lb_i64 lb_rows_of(const lb_shape *s)
{
	lb_i64 m = 1;
	for (lb_i32 i = 0; i < s->axes; i++)
		m *= s->dim[i];
	return m;
}

/* lb_gemm_pick returns the kernel for a device of compute capability arch (75, 80, ...; 90 with warpgroups). Matrices of
 * one 16-bit type are multiplied on the tensor cores. The tile changes no bit of the result. Small tiles are for products
 * whose large tiles would not fill LB_GEMM_FILL multiprocessors. */
enum { LB_GEMM_FILL = 108 };
static inline enum lb_gemm_kernel lb_gemm_pick(const lb_gemm_args *a, lb_i32 arch)
{
	lb_i64 m = lb_rows_of(&a->rows);
	lb_i32 large = lb_ceil(m, 128) * lb_ceil(a->n, 128) >= LB_GEMM_FILL;
	lb_i32 k;
	if (a->x.dtype != a->w_dtype || a->w_dtype == LB_F32 || (a->w_dtype == LB_BF16 && arch < 80))
		return large ? LB_GEMM_F32_128 : LB_GEMM_F32_32;
	if (arch == 90) {
		k = a->w_dtype == LB_BF16 ? LB_GEMM_WG_BF16_128 : LB_GEMM_WG_F16_128;
		return (enum lb_gemm_kernel)(k + (large ? 0 : 1) + (a->parts || a->onto.ptr ? 2 : 0));
	}
	k = a->w_dtype == LB_BF16 ? LB_GEMM_BF16_128 : LB_GEMM_F16_128;
	k += large ? 0 : m > 16 ? 1 : 2;
	if (a->parts || a->onto.ptr)
		k += LB_GEMM_BF16_128_PARTS - LB_GEMM_BF16_128;
	return (enum lb_gemm_kernel)k;
}

/* Shared memory of a tile: LB_STAGES slices of 32 terms on the tensor cores, two slices of 16 terms in fp32, and at least
 * up to 64 rows of finished sums, which are 8 numbers longer than a row of the tile. */
enum { LB_STAGES = 4, LB_STAGES_SMALL = 8, LB_STAGES_TURING = 2 };

/* A tile of warpgroups has slices of 64 terms. Together they are a multiple of 1024 bytes, and large enough for all sums. */
enum { LB_WG_STAGES = 3, LB_WG_STAGES_SMALL = 6 };

static inline lb_i64 lb_tile_shared(lb_i64 rows, lb_i64 columns, lb_i64 stages, lb_i64 stage_bytes)
{
	lb_i64 sums = (rows < 64 ? rows : 64) * (columns + 8) * 4;
	lb_i64 slices = stages * (rows + columns) * stage_bytes;
	return sums > slices ? sums : slices;
}

static inline lb_launch lb_gemm_launch(const lb_gemm_args *a, enum lb_gemm_kernel k)
{
	lb_i64 m = lb_rows_of(&a->rows), n = a->n;
	lb_i32 tile = k < LB_GEMM_F32_128 ? (lb_i32)k % 3 : -1;
	if (k >= LB_GEMM_WG_BF16_128 && (k - LB_GEMM_WG_BF16_128) % 2 == 0)
		return lb_launch_of(lb_ceil(m, 128) * lb_ceil(n, 128), 1, 1, 256, LB_WG_STAGES * (128 + 128) * 128);
	if (k >= LB_GEMM_WG_BF16_128)
		return lb_launch_of(lb_ceil(m, 64) * lb_ceil(n, 64), 1, 1, 128, LB_WG_STAGES_SMALL * (64 + 64) * 128);
	if (k == LB_GEMM_F32_128)
		return lb_launch_of(lb_ceil(m, 128) * lb_ceil(n, 128), 1, 1, 256, lb_tile_shared(128, 128, 2, 16 * 4 + 2));
	if (k == LB_GEMM_F32_32)
		return lb_launch_of(lb_ceil(m, 32) * lb_ceil(n, 32), 1, 1, 64, lb_tile_shared(32, 32, 2, 16 * 4 + 8));
	if (tile == 0)
		return lb_launch_of(lb_ceil(m, 128) * lb_ceil(n, 128), 1, 1, 256, lb_tile_shared(128, 128, LB_STAGES, 64));
	if (tile == 1)
		return lb_launch_of(lb_ceil(m, 64) * lb_ceil(n, 64), 1, 1, 128, lb_tile_shared(64, 64, LB_STAGES, 64));
	return lb_launch_of(lb_ceil(m, 16) * lb_ceil(n, 64), 1, 1, 128, lb_tile_shared(16, 64, LB_STAGES_SMALL, 64));
}

#endif
