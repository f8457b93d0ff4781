// Shared by the norms: sums over lanes and blocks in fixed trees, and the steps after the normalisation.
#pragma once
#include "args_norm.h"
#include "vec.h"

// sum8 adds eight numbers in pairs.
DEV f32 sum8(const f32 *v) { return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])); }

// lanes_sum adds over groups of neighbouring lanes; all of them get the sum.
DEV f32 lanes_sum(f32 v, u32 lanes)
{
	for (u32 m = lanes / 2; m > 0; m /= 2)
		v += shfl_xor(v, m);
	return v;
}

// sum2 adds a and b over groups of neighbouring lanes. If a group is the whole block, the sums of its warps are added in
// order. spare is a buffer for two numbers of each warp.
DEV void sum2(f32 &a, f32 &b, u32 lanes, f32 *spare)
{
	a = lanes_sum(a, min((i32)lanes, 32));
	b = lanes_sum(b, min((i32)lanes, 32));
	if (lanes <= 32)
		return;
	u32 warps = nthreads() / 32;
	if (lane() == 0) {
		spare[warp_id()] = a;
		spare[warps + warp_id()] = b;
	}
	BAR(10);
	a = b = 0;
	for (u32 w = 0; w < warps; w++) {
		a += spare[w];
		b += spare[warps + w];
	}
	BAR(11); // spare may be written again
}

// inverse_root is 1 / sqrt(v), by a step of Newton's.
DEV f32 inverse_root(f32 v)
{
	f32 r = rsqrt(v);
	return r * fma_(-0.5f * v * r, r, 1.5f);
}

// after does the steps after the normalisation of eight columns: bias, modulation, function and store. It rounds to the
// type of dst where PyTorch stores between modules. at_* are the offsets of the first of the eight.
struct after {
	bool dst, scale, shift; // whole vectors
	i64 at_dst, at_scale, at_shift;
};

DEV void follow(f32 *y, const lb_view &dst, const lb_view &scale, const lb_view &shift, i32 op, const after &k, i32 n)
{
	if (scale.ptr) {
		f32 a[8];
		get8(a, scale, k.scale, k.at_scale, scale.col, n);
		UNROLL
		for (int j = 0; j < 8; j++)
			a[j] = 1 + a[j];
		rnd8(dst.dtype, y);
		rnd8(dst.dtype, a);
		UNROLL
		for (int j = 0; j < 8; j++)
			y[j] *= a[j];
		rnd8(dst.dtype, y);
		get8(a, shift, k.shift, k.at_shift, shift.col, n);
		UNROLL
		for (int j = 0; j < 8; j++)
			y[j] += a[j];
	}
	if (op != LB_IDENTITY) {
		rnd8(dst.dtype, y);
		act8(op, y);
	}
	put8(y, dst, k.dst, k.at_dst, dst.col, n);
}

// vector_aligned: a view of one axis is read by whole vectors.
DEV bool vector_aligned(const lb_view &v) { return v.col == 1 && (v.ptr & 15) == 0; }
