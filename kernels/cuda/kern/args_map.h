/* Elementwise calls: Copy, Unary and Binary of Backend, and Gather and Rope, whose axes have other meanings. */
#ifndef LB_ARGS_MAP_H
#define LB_ARGS_MAP_H
#include "args.h"

enum { LB_ADD = 0, LB_MUL = 1 }; /* as kernels.BinaryOp */

/* A block of an elementwise kernel has LB_MAP_THREADS threads, each with LB_MAP_VECTORS vectors of 8 elements. */
enum { LB_MAP_THREADS = 256, LB_MAP_VECTORS = 4, LB_TILE = 64 };

/* lb_map_args: dst = op(a), or dst = a op b. The axes may have any order that all views share (see lb_map_arrange).
 * across is for the kernel transpose (see lb_copy_across). */
typedef struct {
	lb_shape shape;
	lb_view dst, a, b;
	lb_i32 op;
	lb_i32 across;
} lb_map_args;

/* lb_rope_args: the axes are those of x, but the last one counts pairs of channels; col is the stride inside a pair. */
typedef struct {
	lb_shape shape;
	lb_view dst, x, cos, sin;
} lb_rope_args;

/* lb_gather_args: row i of dst (rows, columns) is row ids[i] of table; stride[0] is between rows. */
typedef struct {
	lb_i32 rows, columns;
	lb_view dst, table;
	lb_u64 ids; /* int32 */
} lb_gather_args;

static inline lb_i64 lb_size_of(lb_i32 dtype) { return dtype == LB_F32 ? 4 : 2; }

static inline lb_i64 lb_magnitude(lb_i64 v) { return v < 0 ? -v : v; }

/* lb_map_swap exchanges two axes of the shape and of n views. */
static inline void lb_map_swap(lb_shape *s, lb_view **v, lb_i32 n, lb_i32 a, lb_i32 b)
{
	lb_i32 d = s->dim[a];
	s->dim[a] = s->dim[b];
	s->dim[b] = d;
	for (lb_i32 o = 0; o < n; o++) {
		lb_i64 t = v[o]->stride[a];
		v[o]->stride[a] = v[o]->stride[b];
		v[o]->stride[b] = t;
	}
}

/* lb_map_merge merges neighbouring axes that all n views step through evenly, and leaves out axes of length 1. At least
 * one axis remains. */
static inline void lb_map_merge(lb_shape *s, lb_view **v, lb_i32 n)
{
	lb_i32 out = -1;
	for (lb_i32 ax = 0; ax < s->axes; ax++) {
		lb_i32 alike = out >= 0;
		if (s->dim[ax] == 1)
			continue;
		for (lb_i32 o = 0; alike && o < n; o++)
			alike = v[o]->stride[out] == v[o]->stride[ax] * s->dim[ax];
		if (!alike)
			out++;
		s->dim[out] = alike ? s->dim[out] * s->dim[ax] : s->dim[ax];
		for (lb_i32 o = 0; o < n; o++)
			v[o]->stride[out] = v[o]->stride[ax];
	}
	if (out < 0) {
		out = 0;
		s->dim[0] = 1;
		for (lb_i32 o = 0; o < n; o++)
			v[o]->stride[0] = 1;
	}
	s->axes = out + 1;
}

/* lb_map_arrange sorts the axes by the strides of the first view, which is written, largest first, and merges them. The
 * order does not matter for elementwise functions, but memory is written faster in its own order. */
static inline void lb_map_arrange(lb_shape *s, lb_view **v, lb_i32 n)
{
	lb_map_merge(s, v, n);
	for (lb_i32 i = 1; i < s->axes; i++)
		for (lb_i32 j = i; j > 0 && lb_magnitude(v[0]->stride[j - 1]) < lb_magnitude(v[0]->stride[j]); j--)
			lb_map_swap(s, v, n, j - 1, j);
	lb_map_merge(s, v, n);
}

/* lb_map_vectors returns the number of vectors of 8 elements of the shape. The last vector of each run may not be full. */
static inline lb_i64 lb_map_vectors(const lb_shape *s, lb_i64 width)
{
	lb_i64 n = lb_ceil(s->dim[s->axes - 1], width);
	for (lb_i32 i = 0; i < s->axes - 1; i++)
		n *= s->dim[i];
	return n;
}

static inline lb_launch lb_map_launch(const lb_map_args *a)
{
	lb_i64 blocks = lb_ceil(lb_map_vectors(&a->shape, 8), LB_MAP_THREADS * LB_MAP_VECTORS);
	return lb_launch_of(blocks, 1, 1, LB_MAP_THREADS, 0);
}

static inline lb_launch lb_rope_launch(const lb_rope_args *a)
{
	lb_i64 blocks = lb_ceil(lb_map_vectors(&a->shape, 4), LB_MAP_THREADS * LB_MAP_VECTORS);
	return lb_launch_of(blocks, 1, 1, LB_MAP_THREADS, 0);
}

static inline lb_launch lb_gather_launch(const lb_gather_args *a)
{
	lb_i64 vectors = a->rows * lb_ceil(a->columns, 8);
	return lb_launch_of(lb_ceil(vectors, LB_MAP_THREADS * LB_MAP_VECTORS), 1, 1, LB_MAP_THREADS, 0);
}

/* lb_copy_across returns the axis along which the elements of a copy's source are contiguous, if it is not the last one
 * and both axes are long enough for tiles of LB_TILE x LB_TILE. It returns -1 if map_unary is better for the copy. The
 * arguments must be arranged. */
static inline lb_i32 lb_copy_across(const lb_map_args *a)
{
	lb_i32 last = a->shape.axes - 1;
	if (a->op != LB_IDENTITY || a->dst.stride[last] != 1 || a->a.stride[last] == 1 || a->shape.dim[last] < 16)
		return -1;
	for (lb_i32 ax = 0; ax < last; ax++)
		if (a->a.stride[ax] == 1 && a->shape.dim[ax] >= 16)
			return ax;
	return -1;
}

/* lb_transpose_launch: a block for each tile of the axes across and last, and for each index of the other axes. */
static inline lb_launch lb_transpose_launch(const lb_map_args *a)
{
	lb_i32 last = a->shape.axes - 1;
	lb_i64 blocks = 1;
	for (lb_i32 ax = 0; ax <= last; ax++)
		blocks *= ax == last || ax == a->across ? lb_ceil(a->shape.dim[ax], LB_TILE) : a->shape.dim[ax];
	return lb_launch_of(blocks, 1, 1, LB_MAP_THREADS, LB_TILE * (LB_TILE + 1) * 4);
}

#endif
