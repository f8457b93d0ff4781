/* Norms: dst = act(modulate(normalise(x) weight + bias)), see Backend.Norm. */
#ifndef LB_ARGS_NORM_H
#define LB_ARGS_NORM_H
#include "args.h"

enum { LB_LAYER_NORM = 0, LB_RMS_NORM = 1, LB_GROUP_NORM = 2 }; /* as kernels.NormKind */

enum { LB_NORM_THREADS = 256 };

/* lb_norm_args is LayerNorm or RMSNorm of each row. The axes of the views are those of rows; the columns are at col. */
typedef struct {
	lb_shape rows;
	lb_i32 columns, kind;
	lb_view dst, x;
	lb_view scale, shift; /* both or none */
	lb_view weight;       /* may be none; its strides are 0 if all rows have the same */
	lb_view bias;         /* (columns): ptr, col and dtype; may be none */
	lb_f32 eps;
	lb_i32 act;
	lb_view cos, sin;  /* (..., columns / 2): a rotation; both or none */
	lb_i32 rope_first; /* rotate before the norm, not after it */
	lb_i32 zero_;
} lb_norm_args;

/* The kernels. A row is divided among lanes, each with vectors of 8 columns. The order of additions depends only on the
 * number of columns and is the same in all kernels. NORM_N takes rows of up to N columns into registers, if all operands
 * have one 16-bit type and consist of whole vectors, as in the models. QKNORM_N is for the queries and keys of attention:
 * RMSNorm with a rotation, or with different weights for rows. All heads of a token, which are the rows of the last axis,
 * have the same weight and angles. */
enum lb_norm_kernel { LB_NORM_64, LB_NORM_128, LB_NORM_512, LB_NORM_1280, LB_QKNORM_64, LB_QKNORM_128, LB_NORM_ANY };

/* lb_beside_of reports whether an operand has a 16-bit type and rows of contiguous columns that begin at a multiple of
 * bytes. It is also true if there is no operand. lb_vectors_of reports this for whole vectors. */
static inline lb_i32 lb_beside_of(lb_i32 dtype, const lb_view *v, lb_i32 axes, lb_u64 bytes)
{
	lb_u64 all = v->ptr;
	for (lb_i32 ax = 0; ax < axes; ax++)
		all |= (lb_u64)v->stride[ax] * 2;
	return !v->ptr || (v->dtype == dtype && v->col == 1 && all % bytes == 0);
}

static inline lb_i32 lb_vectors_of(lb_i32 dtype, const lb_view *v, lb_i32 axes) { return lb_beside_of(dtype, v, axes, 16); }

/* lb_norm_apart reports whether rows may have different weights, or are rotated. */
static inline lb_i32 lb_norm_apart(const lb_norm_args *a)
{
	lb_i64 all = 0;
	for (lb_i32 ax = 0; ax < a->rows.axes; ax++)
		all |= a->weight.stride[ax];
	return all != 0 || a->cos.ptr;
}

/* lb_qknorm_fits reports whether the kernels qknorm can compute a call for which lb_norm_apart is true. */
static inline lb_i32 lb_qknorm_fits(const lb_norm_args *a)
{
	lb_i32 last = a->rows.axes - 1;
	return a->columns <= 128 && !a->bias.ptr && !a->scale.ptr && lb_beside_of(a->x.dtype, &a->cos, a->rows.axes, 8) &&
		lb_beside_of(a->x.dtype, &a->sin, a->rows.axes, 8) &&
		!(a->weight.stride[last] | a->cos.stride[last] | a->sin.stride[last]);
}

static inline enum lb_norm_kernel lb_norm_pick(const lb_norm_args *a)
{
	lb_i32 t = a->x.dtype, axes = a->rows.axes;
	if (a->columns > 1280 || t == LB_F32 || a->act != LB_IDENTITY || a->columns % 8 || !lb_vectors_of(t, &a->x, axes) ||
		!lb_vectors_of(t, &a->dst, axes) || !lb_vectors_of(t, &a->scale, axes) ||
		!lb_vectors_of(t, &a->shift, axes) || !lb_vectors_of(t, &a->weight, axes) || !lb_vectors_of(t, &a->bias, 0))
		return LB_NORM_ANY;
	if (lb_norm_apart(a))
		return !lb_qknorm_fits(a) ? LB_NORM_ANY : a->columns <= 64 ? LB_QKNORM_64 : LB_QKNORM_128;
	return a->columns <= 64 ? LB_NORM_64 : a->columns <= 128 ? LB_NORM_128 : a->columns <= 512 ? LB_NORM_512 :
		LB_NORM_1280;
}

static inline const char *lb_norm_name(enum lb_norm_kernel k)
{
	static const char *const names[] = {"norm_64", "norm_128", "norm_512", "norm_1280", "qknorm_64", "qknorm_128", "norm_any"};
	return names[k];
}

/* lb_norm_lanes returns how many lanes share a row. */
static inline lb_i32 lb_norm_lanes(lb_i32 columns)
{
	return columns <= 64 ? 8 : columns <= 128 ? 16 : columns <= 1280 ? 32 : LB_NORM_THREADS;
}

/* Lanes that share a short row compute LB_NORM_ROWS rows, because finding the address of a row takes as long as its norm. */
enum { LB_NORM_ROWS = 4 };

/* In qknorm, the lanes of a row compute LB_QK_RUN neighbouring rows of the last axis, LB_QK_ROWS at a time. */
enum { LB_QK_ROWS = 4, LB_QK_RUN = 32 };

static inline lb_launch lb_norm_launch_of(const lb_norm_args *a, enum lb_norm_kernel k)
{
	lb_i64 lanes = lb_norm_lanes(a->columns), turns = k == LB_NORM_64 || k == LB_NORM_128 ? LB_NORM_ROWS : 1, rows = 1;
	lb_i32 last = a->rows.axes - 1;
	for (lb_i32 i = 0; i < last; i++)
		rows *= a->rows.dim[i];
	if (k == LB_QKNORM_64 || k == LB_QKNORM_128) {
		rows *= lb_ceil(a->rows.dim[last], LB_QK_RUN);
		return lb_launch_of(lb_ceil(rows, LB_NORM_THREADS / lanes), 1, 1, LB_NORM_THREADS, 0);
	}
	rows *= a->rows.dim[last];
	return lb_launch_of(lb_ceil(rows, LB_NORM_THREADS / lanes * turns), 1, 1, LB_NORM_THREADS,
		2 * LB_NORM_THREADS / 32 * 4);
}

static inline lb_launch lb_norm_launch(const lb_norm_args *a) { return lb_norm_launch_of(a, lb_norm_pick(a)); }

/* GroupNorm of images, channels last, in three launches: compute the moments of each group in each chunk of pixels;
 * combine them in the order of the chunks; apply them. */
enum { LB_GROUP_VECTORS = 12, LB_GROUP_COLUMNS = 2048 };

typedef struct {
	lb_shape pixels; /* (N, H, W): 3 axes; for evenly spaced pixels, (N, 1, H W) gives the same and is faster */
	lb_i32 columns;  /* C, at most LB_GROUP_COLUMNS */
	lb_i32 groups;
	lb_view dst, x, scale, shift; /* (N, H, W) and col */
	lb_view weight, bias;         /* (C) */
	lb_u64 moments;               /* scratch, lb_group_moments_bytes */
	lb_u64 factors;               /* scratch, lb_group_factors_bytes */
	lb_f32 eps;
	lb_i32 act;
} lb_group_norm_args;

/* lb_group_lanes returns how many pixels the threads of a block hold at a time, with 8 channels in each thread. */
static inline lb_i32 lb_group_lanes(lb_i32 columns) { return LB_NORM_THREADS / ((columns + 7) / 8); }

/* lb_group_chunk returns how many pixels a block computes. */
static inline lb_i32 lb_group_chunk(lb_i32 columns) { return lb_group_lanes(columns) * LB_GROUP_VECTORS; }

static inline lb_i64 lb_group_chunks(const lb_group_norm_args *a)
{
	return lb_ceil((lb_i64)a->pixels.dim[1] * a->pixels.dim[2], lb_group_chunk(a->columns));
}

static inline lb_i64 lb_group_moments_bytes(const lb_group_norm_args *a)
{
	return a->pixels.dim[0] * lb_group_chunks(a) * a->groups * 8;
}

static inline lb_i64 lb_group_factors_bytes(const lb_group_norm_args *a)
{
	return (lb_i64)a->pixels.dim[0] * a->columns * 8;
}

/* lb_group_plain reports whether group_moments and group_apply can compute the call. They need evenly spaced pixels.
 * Otherwise group_moments_any and group_apply_any compute it, with the same bits. */
static inline lb_i32 lb_group_plain(const lb_group_norm_args *a)
{
	lb_i32 t = a->x.dtype;
	return t != LB_F32 && a->columns % 8 == 0 && a->pixels.dim[1] == 1 && !a->scale.ptr && (a->act == LB_IDENTITY || a->act == LB_SILU) &&
		lb_vectors_of(t, &a->x, 3) && lb_vectors_of(t, &a->dst, 3);
}

static inline lb_launch lb_group_moments_launch(const lb_group_norm_args *a)
{
	lb_i64 shared = LB_NORM_THREADS * 8 * 4 * 2 + (lb_i64)a->groups * 4;
	return lb_launch_of(lb_group_chunks(a), a->pixels.dim[0], 1, LB_NORM_THREADS, shared);
}

static inline lb_launch lb_group_combine_launch(const lb_group_norm_args *a)
{
	return lb_launch_of(a->groups, a->pixels.dim[0], 1, LB_NORM_THREADS, 2 * LB_NORM_THREADS / 32 * 4);
}

static inline lb_launch lb_group_apply_launch(const lb_group_norm_args *a)
{
	return lb_launch_of(lb_group_chunks(a), a->pixels.dim[0], 1, LB_NORM_THREADS, 0);
}

#endif
