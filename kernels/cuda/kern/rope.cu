// Rope: rotates neighbouring channels.
#include "args_map.h"
#include "turn.h"
#include "vec.h"

struct turned { i64 dst, x, cos, sin; };

DEV turned turned_of(const lb_rope_args &p, u32 row, u32 col)
{
	int last = p.shape.axes - 1;
	turned at = {col * p.dst.stride[last], col * p.x.stride[last], col * p.cos.stride[last], col * p.sin.stride[last]};
	for (int ax = last - 1; ax >= 0; ax--) {
		u32 n = (u32)p.shape.dim[ax], i = row % n;
		row /= n;
		at.dst += i * p.dst.stride[ax];
		at.x += i * p.x.stride[ax];
		at.cos += i * p.cos.stride[ax];
		at.sin += i * p.sin.stride[ax];
	}
	return at;
}

// pairs_beside reports whether the elements of all pairs are contiguous, and four pairs are aligned to 16 bytes.
DEV bool pairs_beside(const lb_shape &s, const lb_view &v)
{
	u64 all = v.ptr;
	for (int ax = 0; ax < s.axes - 1; ax++)
		all |= (u64)v.stride[ax] * size_of(v.dtype);
	return v.stride[s.axes - 1] == 2 && v.col == 1 && (all & 15) == 0;
}

KERNEL(256) rope(const lb_rope_args p GRID_CONST)
{
	int last = p.shape.axes - 1;
	u32 run = (u32)p.shape.dim[last], per = (run + 3) / 4, count = per;
	for (int ax = 0; ax < last; ax++)
		count *= (u32)p.shape.dim[ax];
	bool wide = pairs_beside(p.shape, p.dst) && pairs_beside(p.shape, p.x) &&
		beside(p.shape, p.cos, 4 * size_of(p.cos.dtype)) && beside(p.shape, p.sin, 4 * size_of(p.sin.dtype));
	NO_UNROLL
	for (u32 k = 0; k < LB_MAP_VECTORS; k++) {
		u32 i = (bx() * LB_MAP_VECTORS + k) * LB_MAP_THREADS + tid();
		if (i >= count)
			return;
		u32 row = i / per, col = (i - row * per) * 4;
		turned at = turned_of(p, row, col);
		if (wide && col + 4 <= run) {
			f32 v[8], c[4], s[4];
			ld8(v, p.x.ptr, p.x.dtype, at.x);
			angles(c, p.cos, at.cos);
			angles(s, p.sin, at.sin);
			UNROLL
			for (int j = 0; j < 4; j++)
				turn(p.dst.dtype, v + 2 * j, c[j], s[j]);
			st8(p.dst.ptr, p.dst.dtype, at.dst, v);
			continue;
		}
		for (u32 j = 0; j < 4 && col + j < run; j++) {
			i64 x = at.x + j * p.x.stride[last], dst = at.dst + j * p.dst.stride[last];
			f32 v[2] = {ld(p.x.ptr, p.x.dtype, x), ld(p.x.ptr, p.x.dtype, x + p.x.col)};
			turn(p.dst.dtype, v, ld(p.cos.ptr, p.cos.dtype, at.cos + j * p.cos.stride[last]),
				ld(p.sin.ptr, p.sin.dtype, at.sin + j * p.sin.stride[last]));
			st(p.dst.ptr, p.dst.dtype, dst, v[0]);
			st(p.dst.ptr, p.dst.dtype, dst + p.dst.col, v[1]);
		}
	}
}
