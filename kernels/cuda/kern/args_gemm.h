/* dst = epilogue(x w^T): see Backend.Linear. */
#ifndef LB_ARGS_GEMM_H
#define LB_ARGS_GEMM_H
#include "args.h"

enum { LB_PARTS = 64 }; /* borders of the parts of a sum, at most */

/* lb_epilogue is what is done to finished sums: kernels.Epilogue, or the bias and the residual of a
 * convolution. Views have the rows of dst (its leading axes) and col. */
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
	lb_i32 parts; /* how many borders part holds */
	lb_i32 part[LB_PARTS];
	lb_view onto; /* F32 (rows, n), or none */
	lb_epilogue ep;
} lb_gemm_args;

/* The tiles a block computes: rows, columns, threads, stages of k in shared memory. */
enum lb_gemm_tile { LB_GEMM_128, LB_GEMM_64, LB_GEMM_16, LB_GEMM_F32_128, LB_GEMM_F32_32, LB_GEMM_TILES };

static inline lb_i64 lb_rows_of(const lb_shape *s)
{
	lb_i64 m = 1;
	for (lb_i32 i = 0; i < s->axes; i++)
		m *= s->dim[i];
	return m;
}

#endif
