// Shared by the kernels of norms over rows: offsets of rows, sums of squares. Offsets that a kernel does not use cost
// nothing.
#pragma once
#include "normal.h"

// where has the offsets of a row in all operands.
struct where { i64 dst, x, weight, scale, shift, cos, sin; };

// row_at returns the offsets of a row, which is counted over the first `axes` axes.
DEV where row_at(const lb_norm_args &p, u32 row, int axes)
{
	where at = {0, 0, 0, 0, 0, 0, 0};
	for (int ax = axes - 1; ax >= 0; ax--) {
		u32 n = (u32)p.rows.dim[ax], i = ax ? row % n : row;
		row /= n;
		at.dst += i * p.dst.stride[ax];
		at.x += i * p.x.stride[ax];
		at.weight += i * p.weight.stride[ax];
		at.scale += i * p.scale.stride[ax];
		at.shift += i * p.shift.stride[ax];
		at.cos += i * p.cos.stride[ax];
		at.sin += i * p.sin.stride[ax];
	}
	return at;
}

DEV f32 squares8(const f32 *v)
{
	f32 a = v[0] * v[0], b = v[1] * v[1];
	UNROLL
	for (int j = 2; j < 8; j += 2) {
		a = fma_(v[j], v[j], a);
		b = fma_(v[j + 1], v[j + 1], b);
	}
	return a + b;
}

// factor_of is 1 / sqrt(variance + eps). square is the mean of the squares of x - c, where the mean of x is c + rest.
DEV f32 factor_of(const lb_norm_args &p, f32 square, f32 rest)
{
	return inverse_root(max(square - rest * rest, 0.0f) + p.eps);
}
