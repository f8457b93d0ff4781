// Vectors of eight neighbours of a strided operand, whole or not, aligned or not.
#pragma once
#include "num.h"

// beside reports whether the elements of each run along the last axis are contiguous and every run begins at a multiple of
// bytes.
DEV bool beside(const lb_shape &s, const lb_view &v, u32 bytes)
{
	u64 all = v.ptr;
	for (int ax = 0; ax < s.axes - 1; ax++)
		all |= (u64)v.stride[ax] * size_of(v.dtype);
	return v.stride[s.axes - 1] == 1 && (all & (bytes - 1)) == 0;
}

// get8 loads the first n of eight elements, at the offsets at, at + step, ...; the others are 0. wide: if n is 8, the eight
// are contiguous and aligned to 16 bytes.
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

// put8 stores to the places that get8 loads from.
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

// widen8, narrow8 and round8 are for eight elements of 16 bits in one vector.
template <class T> DEV void widen8(f32 *out, u4 in)
{
	UNROLL
	for (int j = 0; j < 4; j++) {
		out[2 * j] = type_of<T>::widen((u16)in.v[j]);
		out[2 * j + 1] = type_of<T>::widen((u16)(in.v[j] >> 16));
	}
}
template <class T> DEV u4 narrow8(const f32 *in)
{
	u4 out;
	UNROLL
	for (int j = 0; j < 4; j++)
		out.v[j] = pack2<T>(in[2 * j], in[2 * j + 1]);
	return out;
}
template <class T> DEV void round8(f32 *v) { widen8<T>(v, narrow8<T>(v)); }

// rnd8 rounds eight numbers to the type.
DEV void rnd8(i32 dtype, f32 *v)
{
	if (dtype == LB_BF16)
		round8<bf16>(v);
	else if (dtype == LB_F16)
		round8<f16>(v);
}

template <i32 OP> DEV void act8_of(f32 *v)
{
	UNROLL
	for (int j = 0; j < 8; j++)
		v[j] = act(OP, v[j]);
}

// act8 applies a kernels.UnaryOp.
DEV void act8(i32 op, f32 *v)
{
	if (op == LB_SILU)
		act8_of<LB_SILU>(v);
	else if (op == LB_GELU_TANH)
		act8_of<LB_GELU_TANH>(v);
	else if (op == LB_SIGMOID)
		act8_of<LB_SIGMOID>(v);
}
