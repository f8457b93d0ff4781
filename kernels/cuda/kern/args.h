/* The arguments of kernels: plain C, which the kernels (clang), their emulation (g++) and cgo read.
 *
 * Every kernel has one parameter, a struct of the header args_FAMILY.h, passed by value. lb_FAMILY_launch returns the
 * geometry of its launch. All fields have fixed widths and natural alignment. */
#ifndef LB_ARGS_H
#define LB_ARGS_H

typedef int lb_i32;
typedef unsigned int lb_u32;
typedef long long lb_i64;
typedef unsigned long long lb_u64; /* device pointers too */
typedef float lb_f32;

/* Element types and elementwise functions, numbered as kernels.DType and kernels.UnaryOp are. */
enum { LB_F32 = 0, LB_BF16 = 1, LB_F16 = 2 };
enum { LB_IDENTITY = 0, LB_SILU = 1, LB_GELU_TANH = 2, LB_SIGMOID = 3 };

/* LB_AXES bounds the axes of a view that the host could not merge. */
enum { LB_AXES = 8 };

/* lb_shape is the shape that all views of a call share: 1 to LB_AXES axes, slowest first. The host leaves out axes of
 * length 1, and merges neighbouring axes that all views step through evenly, so that most calls have one axis. The
 * product of all lengths is below 2^31. */
typedef struct {
	lb_i32 axes;
	lb_i32 dim[LB_AXES];
	lb_i32 zero_; /* so that sizes are multiples of 8 */
} lb_shape;

/* lb_view is one operand: the address of its first element and its strides, in elements, on each axis of the shape.
 * ptr 0: the call has no such operand. */
typedef struct {
	lb_u64 ptr;
	lb_i64 stride[LB_AXES];
	lb_i64 col;   /* stride of the columns, in elements, if the shape counts the rows of a matrix */
	lb_i32 dtype;
	lb_i32 zero_;
} lb_view;

/* lb_launch is the geometry of a launch: blocks, threads of a block (on one axis), bytes of dynamic shared
 * memory. Above 48 KiB the host must allow them first, by CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES. */
typedef struct {
	lb_u32 grid[3];
	lb_u32 threads;
	lb_u32 shared;
} lb_launch;

/* lb_blocks converts a number of blocks to 32 bits. If it does not fit, it is the largest number, which no device accepts. */
static inline lb_u32 lb_blocks(lb_i64 n) { return n < 0 || n > 0xffffffff ? 0xffffffff : (lb_u32)n; }

static inline lb_launch lb_launch_of(lb_i64 x, lb_i64 y, lb_i64 z, lb_i32 threads, lb_i64 shared)
{
	lb_launch l;
	l.grid[0] = lb_blocks(x);
	l.grid[1] = lb_blocks(y);
	l.grid[2] = lb_blocks(z);
	l.threads = (lb_u32)threads;
	l.shared = (lb_u32)shared;
	return l;
}

static inline lb_i64 lb_ceil(lb_i64 n, lb_i64 unit) { return (n + unit - 1) / unit; }

#endif
