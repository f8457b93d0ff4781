// Copy, Unary and Binary. Each thread computes whole vectors of eight if all operands allow it, else single elements in
// the order of the destination, so that neighbouring threads write neighbouring elements.
#include "args_map.h"
#include "vec.h"

// place has the offsets of an element in the three operands.
struct place { i64 dst, a, b; };

// place_of returns the start of run `row` moved by `col` elements along the last axis.
template <bool TWO> DEV place place_of(const lb_map_args &p, u32 row, u32 col)
{
	int last = p.shape.axes - 1;
	place at = {col * p.dst.stride[last], col * p.a.stride[last], TWO ? col * p.b.stride[last] : 0};
	for (int ax = last - 1; ax >= 0; ax--) {
		u32 n = (u32)p.shape.dim[ax], i = row % n;
		row /= n;
		at.dst += i * p.dst.stride[ax];
		at.a += i * p.a.stride[ax];
		if (TWO)
			at.b += i * p.b.stride[ax];
	}
	return at;
}

DEV u32 runs_of(const lb_shape &s)
{
	u32 n = 1;
	for (int ax = 0; ax < s.axes - 1; ax++)
		n *= (u32)s.dim[ax];
	return n;
}

// wide_source: vectors of the view are loaded at once, or are one element repeated.
DEV bool wide_source(const lb_shape &s, const lb_view &v)
{
	return v.stride[s.axes - 1] == 0 || beside(s, v, 16);
}

DEV void fetch(f32 *out, const lb_view &v, i64 step, i64 at, i32 n)
{
	if (step == 0) {
		f32 x = ld(v.ptr, v.dtype, at);
		UNROLL
		for (int j = 0; j < 8; j++)
			out[j] = x;
		return;
	}
	get8(out, v, true, at, step, n);
}

// move8 copies eight elements of one type as they are.
DEV void move8(const lb_map_args &p, place at)
{
	if (p.dst.dtype == LB_F32) {
		st16((f32 *)global(p.dst.ptr) + at.dst, ld16((const f32 *)global(p.a.ptr) + at.a));
		st16((f32 *)global(p.dst.ptr) + at.dst + 4, ld16((const f32 *)global(p.a.ptr) + at.a + 4));
	} else {
		st16((u16 *)global(p.dst.ptr) + at.dst, ld16((const u16 *)global(p.a.ptr) + at.a));
	}
}

template <bool TWO> DEV void vectors(const lb_map_args &p)
{
	int last = p.shape.axes - 1;
	u32 run = (u32)p.shape.dim[last], per = (run + 7) / 8, count = runs_of(p.shape) * per;
	bool same = !TWO && p.op == LB_IDENTITY && p.a.dtype == p.dst.dtype && p.a.stride[last] == 1;
	NO_UNROLL
	for (u32 k = 0; k < LB_MAP_VECTORS; k++) {
		u32 i = (bx() * LB_MAP_VECTORS + k) * LB_MAP_THREADS + tid();
		if (i >= count)
			return;
		u32 row = i / per, col = (i - row * per) * 8;
		i32 n = min((i32)(run - col), 8);
		place at = place_of<TWO>(p, row, col);
		if (same && n == 8) {
			move8(p, at);
			continue;
		}
		f32 x[8];
		fetch(x, p.a, p.a.stride[last], at.a, n);
		if (TWO) {
			f32 y[8];
			fetch(y, p.b, p.b.stride[last], at.b, n);
			UNROLL
			for (int j = 0; j < 8; j++)
				x[j] = p.op == LB_ADD ? x[j] + y[j] : x[j] * y[j];
		} else {
			act8(p.op, x);
		}
		put8(x, p.dst, true, at.dst, 1, n);
	}
}

template <bool TWO> DEV void elements(const lb_map_args &p)
{
	u32 run = (u32)p.shape.dim[p.shape.axes - 1], count = runs_of(p.shape) * run;
	if (bx() > count / (LB_MAP_VECTORS * 8 * LB_MAP_THREADS)) // blocks are counted for vectors, and i would overflow
		return;
	NO_UNROLL
	for (u32 k = 0; k < LB_MAP_VECTORS * 8; k++) {
		u32 i = (bx() * LB_MAP_VECTORS * 8 + k) * LB_MAP_THREADS + tid();
		if (i >= count)
			return;
		u32 row = i / run;
		place at = place_of<TWO>(p, row, i - row * run);
		f32 x = ld(p.a.ptr, p.a.dtype, at.a);
		if (TWO) {
			f32 y = ld(p.b.ptr, p.b.dtype, at.b);
			x = p.op == LB_ADD ? x + y : x * y;
		} else {
			x = act(p.op, x);
		}
		st(p.dst.ptr, p.dst.dtype, at.dst, x);
	}
}

KERNEL(256) map_unary(const lb_map_args p GRID_CONST)
{
	if (beside(p.shape, p.dst, 16) && wide_source(p.shape, p.a))
		vectors<false>(p);
	else
		elements<false>(p);
}

KERNEL(256) map_binary(const lb_map_args p GRID_CONST)
{
	if (beside(p.shape, p.dst, 16) && wide_source(p.shape, p.a) && wide_source(p.shape, p.b))
		vectors<true>(p);
	else
		elements<true>(p);
}

// transpose copies if source and destination are contiguous along different axes. Tiles go through shared memory, whose
// rows have one word of padding, so that the elements of a column are in different banks.
KERNEL(256) transpose(const lb_map_args p GRID_CONST)
{
	f32 *tile = (f32 *)smem();
	int last = p.shape.axes - 1, across = p.across;
	u32 block = bx(), x0 = 0, y0 = 0;
	i64 src = 0, dst = 0;
	for (int ax = last; ax >= 0; ax--) {
		bool tiled = ax == last || ax == across;
		u32 n = tiled ? ((u32)p.shape.dim[ax] + LB_TILE - 1) / LB_TILE : (u32)p.shape.dim[ax];
		u32 i = block % n * (tiled ? LB_TILE : 1);
		block /= n;
		x0 = ax == last ? i : x0;
		y0 = ax == across ? i : y0;
		src += i * p.a.stride[ax];
		dst += i * p.dst.stride[ax];
	}
	u32 width = (u32)p.shape.dim[last] - x0, height = (u32)p.shape.dim[across] - y0;
	u32 inner = tid() % LB_TILE, outer = tid() / LB_TILE;
	for (u32 x = outer; x < LB_TILE; x += LB_MAP_THREADS / LB_TILE)
		if (x < width && inner < height)
			tile[x * (LB_TILE + 1) + inner] = ld(p.a.ptr, p.a.dtype, src + x * p.a.stride[last] + inner);
	BAR(1);
	for (u32 y = outer; y < LB_TILE; y += LB_MAP_THREADS / LB_TILE)
		if (y < height && inner < width)
			st(p.dst.ptr, p.dst.dtype, dst + y * p.dst.stride[across] + inner, tile[inner * (LB_TILE + 1) + y]);
}
