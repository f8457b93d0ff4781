/* dst = softmax(scale q k^T + bias) v: see Backend.Attention. */
#ifndef LB_ARGS_ATTN_H
#define LB_ARGS_ATTN_H
#include "args.h"

/* lb_heads is an operand (lead0, lead1, L, H, D); a call with one leading axis has lead[1] = 1. */
typedef struct {
	lb_u64 ptr;
	lb_i64 lead[2], seq, head, chan; /* elements between neighbours on each axis */
	lb_i32 dtype;
	lb_i32 zero_;
} lb_heads;

typedef struct {
	lb_heads q, k, v, dst;
	lb_u64 lens;              /* int32 (lead0), on the device: valid keys; 0: all lk */
	lb_u64 bias;              /* (heads, lq, lk), or 0 */
	lb_i64 bias_head, bias_q, bias_k;
	lb_i32 bias_dtype;
	lb_f32 scale;
	lb_i32 lead[2], lq, lk, heads, d;
	lb_i32 most;   /* skip entries with more valid keys, which another launch computes; 0: skip none */
	lb_i32 blocks; /* for kernels with warpgroups: largest number of blocks, each of which computes several tiles; 0: one per tile */
} lb_attn_args;

enum lb_attn_kernel {
	LB_ATTN_BF16_64, LB_ATTN_BF16_72, LB_ATTN_F16_64, LB_ATTN_F16_72,
	LB_ATTN_SHORT_BF16_64, LB_ATTN_SHORT_BF16_72, LB_ATTN_SHORT_F16_64, LB_ATTN_SHORT_F16_72,
	LB_ATTN_ANY,
	LB_ATTN_WG_BF16_64, LB_ATTN_WG_BF16_72, LB_ATTN_WG_F16_64, LB_ATTN_WG_F16_72,
	LB_ATTN_KERNELS
};

static inline const char *lb_attn_name(enum lb_attn_kernel k)
{
	switch (k) {
	case LB_ATTN_BF16_64: return "attn_bf16_64";
	case LB_ATTN_BF16_72: return "attn_bf16_72";
	case LB_ATTN_F16_64: return "attn_f16_64";
	case LB_ATTN_F16_72: return "attn_f16_72";
	case LB_ATTN_SHORT_BF16_64: return "attn_short_bf16_64";
	case LB_ATTN_SHORT_BF16_72: return "attn_short_bf16_72";
	case LB_ATTN_SHORT_F16_64: return "attn_short_f16_64";
	case LB_ATTN_SHORT_F16_72: return "attn_short_f16_72";
	case LB_ATTN_ANY: return "attn_any";
	case LB_ATTN_WG_BF16_64: return "attn_wg_bf16_64";
	case LB_ATTN_WG_BF16_72: return "attn_wg_bf16_72";
	case LB_ATTN_WG_F16_64: return "attn_wg_f16_64";
	case LB_ATTN_WG_F16_72: return "attn_wg_f16_72";
	default: return 0;
	}
}

/* Queries of a block and keys of a pass; the largest number of queries and keys of the short kernels, and their warps. */
enum { LB_ATTN_QUERIES = 128, LB_ATTN_KEYS = 64, LB_ATTN_SHORT = 64, LB_ATTN_WARPS = 4 };
/* The kernels with warpgroups (sm_90a): queries of a tile and keys of a pass; passes whose keys and values shared memory
 * holds; threads (two warpgroups compute, one copies); elements from one column of 8 channels to the next. */
enum { LB_ATTN_WG_ROWS = 128, LB_ATTN_WG_STAGES = 3, LB_ATTN_WG_THREADS = 384 };
enum { LB_ATTN_WG_COLUMN = LB_ATTN_WG_ROWS * 8 + 8 };
/* Queries and channels that a block of attn_any computes. */
enum { LB_ATTN_ANY_QUERIES = 64, LB_ATTN_ANY_CHANNELS = 128 };

/* Bytes of shared memory for a warp's bias: 16 queries by half a pass of keys, padded. */
enum { LB_ATTN_BIAS_ROOM = 16 * (LB_ATTN_KEYS / 2 + 8) * 4 };

static inline lb_i64 lb_attn_bias_room(const lb_attn_args *a) { return a->bias ? (lb_i64)LB_ATTN_WARPS * LB_ATTN_BIAS_ROOM : 0; }

static inline lb_i64 lb_attn_short_shared(const lb_attn_args *a)
{
	return LB_ATTN_WARPS * (2 * lb_ceil(a->lk, 16) + lb_ceil(a->lq, 16)) * 16 * a->d * 2 + lb_attn_bias_room(a);
}

/* lb_attn_wg reports whether warpgroups compute the entries with more than LB_ATTN_SHORT valid keys. It depends only on
 * facts that the result of a row depends on, too. Single warps compute the other entries, with the same bits for any number
 * of queries. If lens has both kinds, there are two launches, the second one with most = LB_ATTN_SHORT. */
static inline int lb_attn_wg(const lb_attn_args *a, lb_i32 arch)
{
	return arch == 90 && !a->bias && a->scale > 0 && a->lk > LB_ATTN_SHORT && !a->most;
}

/* lb_attn_pick returns the kernel for a device of compute capability arch. Whether it uses the tensor cores depends only on
 * the types and d; with a scale of 0 it never does, because 0 times -inf is no number. The kernels for short and for other
 * heads on the tensor cores give the same bits. */
static inline enum lb_attn_kernel lb_attn_pick(const lb_attn_args *a, lb_i32 arch)
{
	lb_i32 t = a->q.dtype, k;
	if (t != a->k.dtype || t != a->v.dtype || t == LB_F32 || (t == LB_BF16 && arch < 80) || (a->d != 64 && a->d != 72) ||
		a->scale == 0)
		return LB_ATTN_ANY;
	k = (t == LB_F16 ? 2 : 0) + (a->d == 72 ? 1 : 0);
	if (lb_attn_wg(a, arch))
		return (enum lb_attn_kernel)(LB_ATTN_WG_BF16_64 + k);
	if (a->lq <= LB_ATTN_SHORT && a->lk <= LB_ATTN_SHORT && lb_attn_short_shared(a) <= (arch < 80 ? 64 << 10 : 96 << 10))
		k += LB_ATTN_SHORT_BF16_64;
	return (enum lb_attn_kernel)k;
}

/* lb_attn_wg_shared returns the bytes for two tiles of queries and for the stages of keys and values. Keys are padded to 16 channels. */
static inline lb_i64 lb_attn_wg_shared(const lb_attn_args *a)
{
	lb_i64 columns = a->d / 8, keys = lb_ceil(a->d, 16) * 2;
	lb_i64 bytes = (2 * columns + LB_ATTN_WG_STAGES * (keys + columns)) * LB_ATTN_WG_COLUMN * 2;
	return lb_ceil(bytes, 1024) * 1024; /* so that the emulation can align its beginning as products need it */
}

static inline lb_launch lb_attn_launch(const lb_attn_args *a, enum lb_attn_kernel k)
{
	lb_i64 heads = (lb_i64)a->lead[0] * a->lead[1] * a->heads;
	if (k >= LB_ATTN_WG_BF16_64) {
		lb_i64 tiles = lb_ceil(a->lq, LB_ATTN_WG_ROWS) * heads;
		return lb_launch_of(a->blocks && a->blocks < tiles ? a->blocks : tiles, 1, 1, LB_ATTN_WG_THREADS,
			lb_attn_wg_shared(a));
	}
	if (k == LB_ATTN_ANY)
		return lb_launch_of(lb_ceil(a->lq, LB_ATTN_ANY_QUERIES) * lb_ceil(a->d, LB_ATTN_ANY_CHANNELS) * heads, 1, 1,
			256, 2 * 64 * 68 * 4);
	if (k >= LB_ATTN_SHORT_BF16_64)
		return lb_launch_of(lb_ceil(heads, LB_ATTN_WARPS), 1, 1, LB_ATTN_WARPS * 32, lb_attn_short_shared(a));
	return lb_launch_of(lb_ceil(a->lq, LB_ATTN_QUERIES) * heads, 1, 1, 128,
		(LB_ATTN_QUERIES + 4 * LB_ATTN_KEYS) * a->d * 2 + lb_attn_bias_room(a));
}

/* softmax: dst = softmax(scale scores + bias) of each row. It is the middle of attention by two matrix products: scores
 * (rows, keys) = q k^T in fp32, softmax, then dst, of the type of the values, times the values. Use it for heads of more
 * than LB_ATTN_WIDE channels, for which attn_any is slow. The rows of scores and dst are dense. */
enum { LB_ATTN_WIDE = 128 };

typedef struct {
	lb_u64 scores, dst, bias;
	lb_i64 pitch, dst_pitch; /* elements from row to row */
	lb_i64 bias_row, bias_key;
	lb_i32 dst_dtype, bias_dtype;
	lb_i32 rows, keys; /* at least one of each */
	lb_f32 scale;
	lb_i32 zero_;
} lb_softmax_args;

static inline lb_launch lb_softmax_launch(const lb_softmax_args *a) { return lb_launch_of(a->rows, 1, 1, 256, 128); }

#endif
