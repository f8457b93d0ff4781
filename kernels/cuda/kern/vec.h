// Vectors of eight neighbours of a strided operand, whole or not, aligned or not.
#pragma once
#include "num.h"

// beside reports whether the elements of each run along the last axis lie side by side and every run begins at a
// multiple of bytes.
DEV bool beside(const lb_shape &s, const lb_view &v, u32 bytes)
{
	u64 all = v.ptr;
	for (int ax = 0; ax < s.axes - 1; ax++)
		all |= (u64)v.stride[ax] * size_of(v.dtype);
	return v.stride[s.axes - 1] == 1 && (all & (bytes - 1)) == 0;
}

// get8 loads n of the eight elements at, at + step, ...: the others are 0. wide: all eight lie side by side,
// aligned to 16 bytes, when n is 8.
DEV void get8(f32 *out, const lb_view &v, bool wide, i64 at, i64 step, i32 n)
{
	if (wide && n >= 8) {
		ld8(out, v.ptr, v.dtype, at);
		return;
	}
	UNROLL
	for (int j = 0; j < 8; j++)
		out[j] = j < n ? ld(v.ptr, v.dtype, at + j * step) : 0.0f;
}

// put8 stores what get8 would load.
DEV void put8(const f32 *in, const lb_view &v, bool wide, i64 at, i64 step, i32 n)
{
	if (wide && n >= 8) {
		st8(v.ptr, v.dtype, at, in);
		return;
	}
	UNROLL
	for (int j = 0; j < 8; j++)
		if (j < n)
			st(v.ptr, v.dtype, at + j * step, in[j]);
}

// rnd8 rounds eight numbers to the type.
DEV void rnd8(i32 dtype, f32 *v)
{
	if (dtype == LB_BF16) {
		UNROLL
		for (int j = 0; j < 4; j++) {
			u32 two = pack2<bf16>(v[2 * j], v[2 * j + 1]);
			v[2 * j] = float_of(two << 16);
			v[2 * j + 1] = float_of(two & 0xffff0000u);
		}
	} else if (dtype == LB_F16) {
		UNROLL
		for (int j = 0; j < 8; j++)
			v[j] = widen_f16(narrow_f16(v[j]));
	}
}

// act8 applies a kernels.UnaryOp.
DEV void act8(i32 op, f32 *v)
{
	if (op == LB_IDENTITY)
		return;
	UNROLL
	for (int j = 0; j < 8; j++)
		v[j] = act(op, v[j]);
}
