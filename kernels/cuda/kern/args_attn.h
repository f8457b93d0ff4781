/* dst = softmax(scale q k^T + bias) v: see Backend.Attention. */
#ifndef LB_ARGS_ATTN_H
#define LB_ARGS_ATTN_H
#include "args.h"

/* lb_heads is an operand (lead0, lead1, L, H, D); a call with one leading axis has lead1 = 1. */
typedef struct {
	lb_u64 ptr;
	lb_i64 lead[2], seq, head, chan; /* elements between neighbours on each axis */
	lb_i32 dtype;
	lb_i32 zero_;
} lb_heads;

typedef struct {
	lb_heads q, k, v, dst;
	lb_u64 lens;              /* int32 (lead0): valid keys, on the device; 0: all lk */
	lb_u64 bias;              /* (heads, lq, lk), or 0 */
	lb_i64 bias_head, bias_q, bias_k;
	lb_i32 bias_dtype;
	lb_f32 scale;
	lb_i32 lead[2], lq, lk, heads, d;
} lb_attn_args;

#endif
