// Rotation of neighbouring channels, for rope and the norms of queries and keys. Products are rounded to the type of the
// destination before they are added, like the separate multiplications of PyTorch.
#pragma once
#include "num.h"

struct alignas(8) u2 { u32 v[2]; };

// angles loads four neighbours, aligned to their size.
DEV void angles(f32 *out, const lb_view &v, i64 at)
{
	if (v.dtype == LB_F32) {
		u4 x = ld16((const f32 *)global(v.ptr) + at);
		UNROLL
		for (int j = 0; j < 4; j++)
			out[j] = float_of(x.v[j]);
		return;
	}
	u2 x = *(const u2 *)((const u16 *)global(v.ptr) + at);
	UNROLL
	for (int j = 0; j < 4; j++) {
		u16 h = (u16)(x.v[j / 2] >> (j % 2 * 16));
		out[j] = v.dtype == LB_BF16 ? widen_bf16(h) : widen_f16(h);
	}
}

// in_fours reports whether the angles of each row are contiguous, and aligned to the size of four.
DEV bool in_fours(const lb_shape &s, const lb_view &v)
{
	u64 all = v.ptr;
	for (int ax = 0; ax < s.axes; ax++)
		all |= (u64)v.stride[ax] * size_of(v.dtype);
	return v.col == 1 && (all & (4 * size_of(v.dtype) - 1)) == 0;
}

// get4 loads the first n of four angles, at the offsets at, at + col, ...; the others are 0. wide: if n is 4, the four are
// contiguous and aligned to their size.
DEV void get4(f32 *out, const lb_view &v, bool wide, i64 at, i32 n)
{
	if (wide && n >= 4) {
		angles(out, v, at);
		return;
	}
	UNROLL
	for (int j = 0; j < 4; j++)
		out[j] = j < n ? ld(v.ptr, v.dtype, at + j * v.col) : 0.0f;
}

// turn rotates one pair, v[0] and v[1], by the angle with cosine c and sine s.
DEV void turn(i32 dtype, f32 *v, f32 c, f32 s)
{
	f32 x = v[0], y = v[1];
	v[0] = rnd(dtype, x * c) - rnd(dtype, y * s);
	v[1] = rnd(dtype, y * c) + rnd(dtype, x * s);
}

// Angles are four cosines and sines of 16 bits, each for both channels of a pair: the sine of the first one is negative.
template <class T> struct Angles {
	u32 cos[4], sin[4];

	LB_ALWAYS Angles(u2 c, u2 s)
	{
		UNROLL
		for (int j = 0; j < 4; j++) {
			u32 low = c.v[j / 2] >> (j % 2 * 16) & 0xffff, high = s.v[j / 2] >> (j % 2 * 16) & 0xffff;
			cos[j] = low | low << 16;
			sin[j] = (high ^ 0x8000) | high << 16;
		}
	}
	// turn turns four pairs and rounds as the other turn and a store do.
	LB_ALWAYS u4 turn(u4 x) const
	{
		UNROLL
		for (int j = 0; j < 4; j++)
			x.v[j] = add2<T>(mul2<T>(x.v[j], cos[j]), mul2<T>(x.v[j] >> 16 | x.v[j] << 16, sin[j]));
		return x;
	}
};
