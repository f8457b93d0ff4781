// LayerNorm and RMSNorm. A row is spread over the lanes of a warp, of a part of it, or of a block. Operands of the
// models stay in registers; any others are read once for each pass, from the cache.
//
// The mean is subtracted before squares are taken. Where x is fp32, what is left of the mean, for fp32 sums are not
// exact, is then measured and subtracted too: so rows far from zero lose nothing. In 16 bits it is below what x
// resolves.
#include "normal.h"

// where is where a row begins in all operands.
struct where { i64 dst, x, scale, shift; };

DEV where row_at(const lb_norm_args &p, u32 row)
{
	where at = {0, 0, 0, 0};
	for (int ax = p.rows.axes - 1; ax >= 0; ax--) {
		u32 n = (u32)p.rows.dim[ax], i = ax ? row % n : row;
		row /= n;
		at.x += i * p.x.stride[ax];
		at.dst += i * p.dst.stride[ax];
		at.scale += i * p.scale.stride[ax];
		at.shift += i * p.shift.stride[ax];
	}
	return at;
}

// center subtracts the mean from n of eight numbers: the others stay 0.
DEV void center(f32 *v, f32 mean, i32 n)
{
	UNROLL
	for (int j = 0; j < 8; j++)
		v[j] = j < n ? v[j] - mean : 0.0f;
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

// factor_of is 1 / sqrt(variance + eps), from the mean square around a number that the mean differs from by rest.
DEV f32 factor_of(const lb_norm_args &p, f32 square, f32 rest)
{
	return inverse_root(max(square - rest * rest, 0.0f) + p.eps);
}

// Slow is a row of any operands, read once for each pass by the given number of lanes.
struct Slow {
	const lb_norm_args &p;
	where at;
	bool x_wide, weight_wide, bias_wide;
	after k;
	i32 first, step; // the lane's first column, and from one vector to the next

	LB_ALWAYS Slow(const lb_norm_args &args, u32 row, i32 sub, i32 lanes) : p(args)
	{
		at = row_at(p, row);
		x_wide = aligned(p.rows, p.x);
		weight_wide = vector_aligned(p.weight);
		bias_wide = vector_aligned(p.bias);
		k.dst = aligned(p.rows, p.dst);
		k.scale = p.scale.ptr && aligned(p.rows, p.scale);
		k.shift = p.shift.ptr && aligned(p.rows, p.shift);
		first = sub * 8;
		step = lanes * 8;
	}
	LB_ALWAYS void load(f32 *v, i32 c) const { get8(v, p.x, x_wide, at.x + c * p.x.col, p.x.col, p.columns - c); }
	LB_ALWAYS f32 sum() const
	{
		f32 s = 0, v[8];
		NO_UNROLL
		for (i32 c = first; c < p.columns; c += step) {
			load(v, c);
			s += sum8(v);
		}
		return s;
	}
	LB_ALWAYS void moments(f32 mean, f32 &rest, f32 &squares) const
	{
		f32 v[8];
		NO_UNROLL
		for (i32 c = first; c < p.columns; c += step) {
			load(v, c);
			if (p.kind == LB_LAYER_NORM) {
				center(v, mean, p.columns - c);
				rest += p.x.dtype == LB_F32 ? sum8(v) : 0.0f;
			}
			squares += squares8(v);
		}
	}
	LB_ALWAYS void store(f32 mean, f32 rest, f32 factor)
	{
		f32 v[8];
		NO_UNROLL
		for (i32 c = first; c < p.columns; c += step) {
			load(v, c);
			UNROLL
			for (int j = 0; j < 8; j++)
				v[j] = (v[j] - mean - rest) * factor;
			finish(v, c);
		}
	}
	// finish takes eight normalised columns to their place.
	LB_ALWAYS void finish(f32 *y, i32 c)
	{
		i32 n = p.columns - c;
		f32 w[8];
		if (p.weight.ptr) {
			if (p.kind == LB_RMS_NORM)
				rnd8(p.dst.dtype, y);
			get8(w, p.weight, weight_wide, c * p.weight.col, p.weight.col, n);
			UNROLL
			for (int j = 0; j < 8; j++)
				y[j] *= w[j];
		}
		if (p.bias.ptr) {
			get8(w, p.bias, bias_wide, c * p.bias.col, p.bias.col, n);
			UNROLL
			for (int j = 0; j < 8; j++)
				y[j] += w[j];
		}
		k.at_dst = at.dst + c * p.dst.col;
		k.at_scale = at.scale + c * p.scale.col;
		k.at_shift = at.shift + c * p.shift.col;
		follow(y, p.dst, p.scale, p.shift, p.act, k, n);
	}
};

// norm_any takes any operands. A row has as many lanes as lb_norm_lanes says, or a whole block.
KERNEL2(256, 2) norm_any(const lb_norm_args p GRID_CONST)
{
	f32 *spare = (f32 *)smem();
	u32 rows = (u32)rows_of(p.rows);
	u32 lanes = p.columns <= 64 ? 8 : p.columns <= 128 ? 16 : p.columns <= 1280 ? 32 : LB_NORM_THREADS;
	u32 row = bx() * (LB_NORM_THREADS / lanes) + tid() / lanes;
	Slow s(p, row < rows ? row : rows - 1, (i32)(tid() % lanes), (i32)lanes); // all lanes take part in sums
	f32 mean = 0, rest = 0, squares = 0, part = 1 / (f32)p.columns;
	if (p.kind == LB_LAYER_NORM) {
		mean = s.sum();
		sum2(mean, rest, lanes, spare);
		mean *= part;
	}
	s.moments(mean, rest, squares);
	sum2(rest, squares, lanes, spare);
	rest *= part;
	if (row < rows)
		s.store(mean, rest, factor_of(p, squares * part, rest));
}

// follow_plain is Slow::finish for operands in whole vectors of type T: from where steps are rounded to T, pairs of
// T are as good as fp32.
template <class T> DEV u4 follow_plain(f32 *y, const lb_norm_args &p, const where &at, i32 c)
{
	f32 w[8];
	bool alone = p.kind == LB_RMS_NORM && !p.bias.ptr; // the weight multiplies what was rounded, and is rounded
	if (p.weight.ptr && !alone) {
		if (p.kind == LB_RMS_NORM)
			round8<T>(y);
		widen8<T>(w, ld16((const u16 *)global(p.weight.ptr) + c));
		UNROLL
		for (int j = 0; j < 8; j++)
			y[j] *= w[j];
	}
	if (p.bias.ptr) {
		widen8<T>(w, ld16((const u16 *)global(p.bias.ptr) + c));
		UNROLL
		for (int j = 0; j < 8; j++)
			y[j] += w[j];
	}
	u4 out = narrow8<T>(y);
	if (p.weight.ptr && alone) {
		u4 weight = ld16((const u16 *)global(p.weight.ptr) + c);
		UNROLL
		for (int j = 0; j < 4; j++)
			out.v[j] = mul2<T>(out.v[j], weight.v[j]);
	}
	if (p.scale.ptr) {
		u4 scale = ld16((const u16 *)global(p.scale.ptr) + at.scale + c);
		u4 shift = ld16((const u16 *)global(p.shift.ptr) + at.shift + c);
		u32 one = pack2<T>(1, 1);
		UNROLL
		for (int j = 0; j < 4; j++)
			out.v[j] = add2<T>(mul2<T>(out.v[j], add2<T>(one, scale.v[j])), shift.v[j]);
	}
	return out;
}

// A Walk goes from row to row, without a division for each.
struct Walk {
	u32 row, in; // in: its place on the last axis
	where at;

	LB_ALWAYS Walk(const lb_norm_args &p, u32 first) : row(first), in(first % (u32)p.rows.dim[p.rows.axes - 1])
	{
		at = row_at(p, first);
	}
	LB_ALWAYS void next(const lb_norm_args &p)
	{
		int last = p.rows.axes - 1;
		row++;
		if (++in < (u32)p.rows.dim[last]) {
			at.dst += p.dst.stride[last];
			at.x += p.x.stride[last];
			at.scale += p.scale.stride[last];
			at.shift += p.shift.stride[last];
		} else {
			in = 0;
			at = row_at(p, row);
		}
	}
};

// plain_rows does what norm_any does, bit for bit, for operands in whole vectors of one type: ROWS rows at a time.
template <class T, int LANES, int VECTORS, int ROWS> DEV void plain_rows(const lb_norm_args &p)
{
	u32 rows = (u32)rows_of(p.rows), row = (bx() * (LB_NORM_THREADS / LANES) + tid() / LANES) * ROWS;
	i32 first = (i32)(tid() % LANES) * 8;
	f32 part = 1 / (f32)p.columns, v[ROWS][VECTORS][8];
	where at[ROWS];
	Walk walk(p, row < rows ? row : rows - 1); // all lanes take part in sums
	UNROLL
	for (int r = 0; r < ROWS; r++) {
		if (r > 0 && walk.row + 1 < rows)
			walk.next(p);
		at[r] = walk.at;
		UNROLL
		for (int i = 0; i < VECTORS; i++) {
			i32 c = first + i * LANES * 8;
			widen8<T>(v[r][i], c < p.columns ? ld16((const u16 *)global(p.x.ptr) + at[r].x + c) : u4{0, 0, 0, 0});
		}
	}
	UNROLL
	for (int r = 0; r < ROWS; r++) {
		f32 mean = 0, squares = 0;
		if (p.kind == LB_LAYER_NORM) {
			UNROLL
			for (int i = 0; i < VECTORS; i++)
				mean += sum8(v[r][i]);
			mean = lanes_sum(mean, LANES) * part;
		}
		UNROLL
		for (int i = 0; i < VECTORS; i++) {
			if (first + i * LANES * 8 >= p.columns)
				continue;
			if (p.kind == LB_LAYER_NORM)
				center(v[r][i], mean, 8);
			squares += squares8(v[r][i]);
		}
		f32 factor = factor_of(p, lanes_sum(squares, LANES) * part, 0);
		UNROLL
		for (int i = 0; i < VECTORS; i++) {
			i32 c = first + i * LANES * 8;
			if (row + r >= rows || c >= p.columns)
				continue;
			UNROLL
			for (int j = 0; j < 8; j++)
				v[r][i][j] *= factor;
			st16((u16 *)global(p.dst.ptr) + at[r].dst + c, follow_plain<T>(v[r][i], p, at[r], c));
		}
	}
}

template <int LANES, int VECTORS, int ROWS> DEV void rows(const lb_norm_args &p)
{
	if (p.x.dtype == LB_BF16)
		plain_rows<bf16, LANES, VECTORS, ROWS>(p);
	else
		plain_rows<f16, LANES, VECTORS, ROWS>(p);
}

KERNEL2(256, 2) norm_64(const lb_norm_args p GRID_CONST) { rows<8, 1, LB_NORM_ROWS>(p); }
KERNEL2(256, 2) norm_128(const lb_norm_args p GRID_CONST) { rows<16, 1, LB_NORM_ROWS>(p); }
KERNEL2(256, 2) norm_512(const lb_norm_args p GRID_CONST) { rows<32, 2, 1>(p); }
KERNEL2(256, 2) norm_1280(const lb_norm_args p GRID_CONST) { rows<32, 5, 1>(p); }
