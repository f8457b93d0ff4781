// Numbers: storage types, rounding, vectors of eight, elementwise functions.
#pragma once
#include "args.h"
#include "lb.h"

DEV f32 widen_bf16(u16 v) { return float_of((u32)v << 16); }

// narrow_bf16 rounds to the nearest, ties to even; a NaN stays one.
DEV u16 narrow_bf16(f32 v)
{
	u32 b = bits_of(v);
	if (v != v)
		return (u16)(b >> 16 | 0x40);
	return (u16)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

#if !defined(LB_NARROW2_BF16)
DEV u32 narrow2_bf16(f32 lo, f32 hi) { return narrow_bf16(lo) | (u32)narrow_bf16(hi) << 16; }
#endif

// A storage type: its code, and the conversions to fp32 and back.
template <class T> struct type_of;
template <> struct type_of<f32> {
	static constexpr i32 code = LB_F32;
	typedef f32 bits;
	DEV f32 widen(f32 v) { return v; }
	DEV f32 narrow(f32 v) { return v; }
};
template <> struct type_of<bf16> {
	static constexpr i32 code = LB_BF16;
	typedef u16 bits;
	DEV f32 widen(u16 v) { return widen_bf16(v); }
	DEV u16 narrow(f32 v) { return narrow_bf16(v); }
};
template <> struct type_of<f16> {
	static constexpr i32 code = LB_F16;
	typedef u16 bits;
	DEV f32 widen(u16 v) { return widen_f16(v); }
	DEV u16 narrow(f32 v) { return narrow_f16(v); }
};

// pack2 rounds two numbers to T, the first in the low half.
template <class T> LB_DEVICE u32 pack2(f32 lo, f32 hi);
template <> LB_ALWAYS u32 pack2<bf16>(f32 lo, f32 hi) { return narrow2_bf16(lo, hi); }
template <> LB_ALWAYS u32 pack2<f16>(f32 lo, f32 hi) { return narrow_f16(lo) | (u32)narrow_f16(hi) << 16; }

// add2 and mul2 are sums and products of two pairs, rounded to T.
template <class T> LB_ALWAYS u32 add2(u32 a, u32 b)
{
	typedef type_of<T> t;
	return pack2<T>(t::widen((u16)a) + t::widen((u16)b), t::widen((u16)(a >> 16)) + t::widen((u16)(b >> 16)));
}
template <class T> LB_ALWAYS u32 mul2(u32 a, u32 b)
{
	typedef type_of<T> t;
	return pack2<T>(t::widen((u16)a) * t::widen((u16)b), t::widen((u16)(a >> 16)) * t::widen((u16)(b >> 16)));
}
#if defined(LB_PAIRS_F16)
template <> LB_ALWAYS u32 add2<f16>(u32 a, u32 b) { return add2_f16(a, b); }
template <> LB_ALWAYS u32 mul2<f16>(u32 a, u32 b) { return mul2_f16(a, b); }
#endif
#if defined(LB_PAIRS_BF16)
template <> LB_ALWAYS u32 add2<bf16>(u32 a, u32 b) { return add2_bf16(a, b); }
template <> LB_ALWAYS u32 mul2<bf16>(u32 a, u32 b) { return mul2_bf16(a, b); }
#endif

DEV u32 size_of(i32 dtype) { return dtype == LB_F32 ? 4 : 2; }

// ld and st move element i of an array of the given type.
DEV f32 ld(u64 p, i32 dtype, i64 i)
{
	if (dtype == LB_F32)
		return ((const f32 *)global(p))[i];
	u16 v = ((const u16 *)global(p))[i];
	return dtype == LB_BF16 ? widen_bf16(v) : widen_f16(v);
}
DEV void st(u64 p, i32 dtype, i64 i, f32 v)
{
	if (dtype == LB_F32)
		((f32 *)global(p))[i] = v;
	else
		((u16 *)global(p))[i] = dtype == LB_BF16 ? narrow_bf16(v) : narrow_f16(v);
}

// rnd rounds to the type, as storing and loading again would do.
DEV f32 rnd(i32 dtype, f32 v)
{
	if (dtype == LB_F32)
		return v;
	return dtype == LB_BF16 ? widen_bf16(narrow_bf16(v)) : widen_f16(narrow_f16(v));
}

// ld8 and st8 move eight neighbours from element i on, where that address is aligned to 16 bytes.
DEV void ld8(f32 *out, u64 p, i32 dtype, i64 i)
{
	if (dtype == LB_F32) {
		u4 a = ld16((const f32 *)global(p) + i), b = ld16((const f32 *)global(p) + i + 4);
		UNROLL
		for (int j = 0; j < 4; j++) {
			out[j] = float_of(a.v[j]);
			out[4 + j] = float_of(b.v[j]);
		}
		return;
	}
	u4 a = ld16((const u16 *)global(p) + i);
	if (dtype == LB_BF16) {
		UNROLL
		for (int j = 0; j < 8; j++)
			out[j] = widen_bf16((u16)(a.v[j / 2] >> (j % 2 * 16)));
	} else {
		UNROLL
		for (int j = 0; j < 8; j++)
			out[j] = widen_f16((u16)(a.v[j / 2] >> (j % 2 * 16)));
	}
}
DEV void st8(u64 p, i32 dtype, i64 i, const f32 *v)
{
	if (dtype == LB_F32) {
		u4 a, b;
		UNROLL
		for (int j = 0; j < 4; j++) {
			a.v[j] = bits_of(v[j]);
			b.v[j] = bits_of(v[4 + j]);
		}
		st16((f32 *)global(p) + i, a);
		st16((f32 *)global(p) + i + 4, b);
		return;
	}
	u4 a;
	if (dtype == LB_BF16) {
		UNROLL
		for (int j = 0; j < 4; j++)
			a.v[j] = pack2<bf16>(v[2 * j], v[2 * j + 1]);
	} else {
		UNROLL
		for (int j = 0; j < 4; j++)
			a.v[j] = pack2<f16>(v[2 * j], v[2 * j + 1]);
	}
	st16((u16 *)global(p) + i, a);
}

// sigmoid is 1 / (1 + e^(-x)). For x far below zero, the last bits of x log2 e are not exact, but then the result is near
// zero.
DEV f32 sigmoid(f32 x) { return rcp(1 + ex2(-1.44269504088896340736f * x)); }

// act is a kernels.UnaryOp. GELU: 0.5 (1 + tanh u) = 1 / (1 + e^(-2u)), without the cancellation of 1 + tanh.
DEV f32 act(i32 op, f32 x)
{
	if (op == LB_SILU)
		return x * sigmoid(x);
	if (op == LB_SIGMOID)
		return sigmoid(x);
	if (op == LB_GELU_TANH)
		return x * sigmoid(1.5957691216057308f * x * fma_(0.044715f * x, x, 1.0f));
	return x;
}

// rows_of returns the number of rows of a shape.
DEV i64 rows_of(const lb_shape &s)
{
	i64 m = 1;
	for (int ax = 0; ax < s.axes; ax++)
		m *= s.dim[ax];
	return m;
}

// offset_of returns the offset of row i of a view, where i counts in row-major order over the axes of the shape.
DEV i64 offset_of(const lb_shape &s, const lb_view &v, u32 i)
{
	i64 at = 0;
	for (int ax = s.axes - 1; ax > 0; ax--) {
		u32 n = (u32)s.dim[ax];
		at += (i64)(i % n) * v.stride[ax];
		i /= n;
	}
	return at + (i64)i * v.stride[0];
}

// aligned reports whether every row of v begins at a multiple of 16 bytes and has its elements side by side.
DEV bool aligned(const lb_shape &s, const lb_view &v)
{
	u64 all = v.ptr;
	for (int ax = 0; ax < s.axes; ax++)
		all |= (u64)v.stride[ax] * size_of(v.dtype);
	return v.col == 1 && (all & 15) == 0;
}
