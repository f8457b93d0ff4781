// RMSNorm of queries and keys and their rotation in one pass, with the bits of norm_any, for rows of up to 64 or up to 128
// columns in whole vectors of one 16-bit type. Rows may have different weights, so that queries and keys are one call. The
// rows of the last axis, which are the heads of a token, have the same weight and the same angles. These are loaded once
// for all heads, and the address of the rows is computed once.
#include "rownorm.h"
#include "turn.h"

// half16 loads four elements of 16 bits, aligned to 8 bytes.
DEV u2 half16(const lb_view &v, i64 at) { return *(const u2 *)((const u16 *)global(v.ptr) + at); }

// Heads is the work of a lane: its eight columns of one row after the other.
template <class T, int LANES> struct Heads {
	const lb_norm_args &p;
	bool weighs, before, after; // whether there is a weight; a rotation before or after the norm
	u4 weight;
	Angles<T> angles;
	f32 part;

	LB_ALWAYS Heads(const lb_norm_args &args, const where &at, i32 c, bool has)
		: p(args), weighs(p.weight.ptr), before(p.cos.ptr && p.rope_first), after(p.cos.ptr && !p.rope_first),
		  weight(has && p.weight.ptr ? ld16((const u16 *)global(p.weight.ptr) + at.weight + c) : u4{0, 0, 0, 0}),
		  angles(has && p.cos.ptr ? half16(p.cos, at.cos + c / 2) : u2{0, 0},
			  has && p.cos.ptr ? half16(p.sin, at.sin + c / 2) : u2{0, 0}),
		  part(1 / (f32)p.columns)
	{
	}
	LB_ALWAYS u4 row(u4 x) const
	{
		f32 v[8];
		if (before)
			x = angles.turn(x);
		widen8<T>(v, x);
		f32 factor = factor_of(p, lanes_sum(squares8(v), LANES) * part, 0);
		UNROLL
		for (int j = 0; j < 8; j++)
			v[j] *= factor;
		x = narrow8<T>(v);
		if (weighs) {
			UNROLL
			for (int j = 0; j < 4; j++)
				x.v[j] = mul2<T>(x.v[j], weight.v[j]);
		}
		return after ? angles.turn(x) : x;
	}
};

template <class T, int LANES> DEV void qk_rows(const lb_norm_args &p)
{
	int last = p.rows.axes - 1;
	i32 heads = p.rows.dim[last], run = min(heads, LB_QK_RUN), c = (i32)(tid() % LANES) * 8;
	u32 parts = (u32)(heads + LB_QK_RUN - 1) / LB_QK_RUN, units = parts; // runs of a token, and of all
	u32 unit = bx() * (LB_NORM_THREADS / LANES) + tid() / LANES;
	for (int ax = 0; ax < last; ax++)
		units *= (u32)p.rows.dim[ax];
	bool mine = unit < units, has = mine && c < p.columns;
	u32 token = mine ? unit / parts : 0; // all lanes take part in sums
	i32 first = (i32)(mine ? unit - token * parts : 0) * LB_QK_RUN;
	where at = row_at(p, token, last);
	Heads<T, LANES> head(p, at, c, has);
	const u16 *x = (const u16 *)global(p.x.ptr) + at.x + first * p.x.stride[last] + c;
	u16 *dst = (u16 *)global(p.dst.ptr) + at.dst + first * p.dst.stride[last] + c;
	NO_UNROLL
	for (i32 h = 0; h < run; h += LB_QK_ROWS) {
		u4 v[LB_QK_ROWS];
		UNROLL
		for (int r = 0; r < LB_QK_ROWS; r++)
			v[r] = has && first + h + r < heads ? ld16(x + r * p.x.stride[last]) : u4{0, 0, 0, 0};
		UNROLL
		for (int r = 0; r < LB_QK_ROWS; r++) {
			u4 y = head.row(v[r]);
			if (has && first + h + r < heads)
				st16(dst + r * p.dst.stride[last], y);
		}
		x += LB_QK_ROWS * p.x.stride[last];
		dst += LB_QK_ROWS * p.dst.stride[last];
	}
}

template <int LANES> DEV void rows(const lb_norm_args &p)
{
	if (p.x.dtype == LB_BF16)
		qk_rows<bf16, LANES>(p);
	else
		qk_rows<f16, LANES>(p);
}

KERNEL2(256, 4) qknorm_64(const lb_norm_args p GRID_CONST) { rows<8>(p); }
KERNEL2(256, 4) qknorm_128(const lb_norm_args p GRID_CONST) { rows<16>(p); }
