// LayerNorm and RMSNorm. A row is divided among the lanes of a warp, of a part of a warp, or of a block. Operands like
// those of the models stay in registers. Other operands are read once for each pass, from the cache.
//
// The mean is subtracted before squares are taken. If x is fp32, the rounding error of the mean is then measured and
// subtracted, too, so that rows far from zero lose no precision. With 16-bit operands, this error is smaller than the
// precision of x.
#include "rownorm.h"
#include "turn.h"

// center subtracts the mean from the first n of eight numbers. The others stay 0.
DEV void center(f32 *v, f32 mean, i32 n)
{
	UNROLL
	for (int j = 0; j < 8; j++)
		v[j] = j < n ? v[j] - mean : 0.0f;
}

// Slow is a row of any operands. Each pass reads it again.
struct Slow {
	const lb_norm_args &p;
	where at;
	bool x_wide, weight_wide, bias_wide, angles_wide;
	after k;
	i32 first, step; // the lane's first column, and from one vector to the next

	LB_ALWAYS Slow(const lb_norm_args &args, u32 row, i32 from, i32 lanes) : p(args), first(from), step(lanes * 8)
	{
		at = row_at(p, row, p.rows.axes);
		x_wide = aligned(p.rows, p.x);
		weight_wide = aligned(p.rows, p.weight);
		bias_wide = vector_aligned(p.bias);
		angles_wide = in_fours(p.rows, p.cos) && in_fours(p.rows, p.sin);
		k.dst = aligned(p.rows, p.dst);
		k.scale = p.scale.ptr && aligned(p.rows, p.scale);
		k.shift = p.shift.ptr && aligned(p.rows, p.shift);
	}
	LB_ALWAYS void load(f32 *v, i32 c) const { get8(v, p.x, x_wide, at.x + c * p.x.col, p.x.col, p.columns - c); }
	// read is load, with the rotation of the row if it comes before the norm.
	LB_ALWAYS void read(f32 *v, i32 c) const
	{
		load(v, c);
		if (p.cos.ptr && p.rope_first) {
			turn_row(v, c);
			rnd8(p.dst.dtype, v);
		}
	}
	LB_ALWAYS void turn_row(f32 *v, i32 c) const
	{
		f32 cos[4], sin[4];
		i32 n = (p.columns - c) / 2;
		get4(cos, p.cos, angles_wide, at.cos + c / 2 * p.cos.col, n);
		get4(sin, p.sin, angles_wide, at.sin + c / 2 * p.sin.col, n);
		UNROLL
		for (int j = 0; j < 4; j++)
			turn(p.dst.dtype, v + 2 * j, cos[j], sin[j]);
	}
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
			read(v, c);
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
			read(v, c);
			UNROLL
			for (int j = 0; j < 8; j++)
				v[j] = (v[j] - mean - rest) * factor;
			finish(v, c);
		}
	}
	// finish completes eight normalised columns and stores them.
	LB_ALWAYS void finish(f32 *y, i32 c)
	{
		i32 n = p.columns - c;
		f32 w[8];
		if (p.weight.ptr) {
			if (p.kind == LB_RMS_NORM)
				rnd8(p.dst.dtype, y);
			get8(w, p.weight, weight_wide, at.weight + c * p.weight.col, p.weight.col, n);
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
		if (p.cos.ptr && !p.rope_first) {
			rnd8(p.dst.dtype, y);
			turn_row(y, c);
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
	bool mine = row < rows; // all lanes take part in sums; lanes without a row read nothing
	Slow s(p, mine ? row : 0, mine ? (i32)(tid() % lanes) * 8 : p.columns, (i32)lanes);
	f32 mean = 0, rest = 0, squares = 0, part = 1 / (f32)p.columns;
	if (p.kind == LB_LAYER_NORM) {
		mean = s.sum();
		sum2(mean, rest, lanes, spare);
		mean *= part;
	}
	s.moments(mean, rest, squares);
	sum2(rest, squares, lanes, spare);
	rest *= part;
	if (mine)
		s.store(mean, rest, factor_of(p, squares * part, rest));
}

// follow_plain is Slow::finish for operands in whole vectors of type T. Once steps are rounded to T, computing with pairs
// of T gives the same as fp32.
template <class T> DEV u4 follow_plain(f32 *y, const lb_norm_args &p, const where &at, i32 c)
{
	f32 w[8];
	bool alone = p.kind == LB_RMS_NORM && !p.bias.ptr; // the weight multiplies the rounded number, and the product is rounded
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

// A Walk is a position that moves from row to row without a division.
struct Walk {
	u32 row, in; // in: its place on the last axis
	where at;

	LB_ALWAYS Walk(const lb_norm_args &p, u32 first) : row(first), in(first % (u32)p.rows.dim[p.rows.axes - 1])
	{
		at = row_at(p, first, p.rows.axes);
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
			at = row_at(p, row, p.rows.axes);
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
	Walk walk(p, row < rows ? row : rows - 1); // all lanes take part in sums; lanes without a row read the last one
	UNROLL
	for (int r = 0; r < ROWS; r++) {
		if (r > 0 && walk.row + 1 < rows)
			walk.next(p);
		at[r] = walk.at;
		UNROLL
		for (int i = 0; i < VECTORS; i++) {
			i32 c = first + i * LANES * 8;
			widen8<T>(v[r][i], row + r < rows && c < p.columns ? ld16((const u16 *)global(p.x.ptr) + at[r].x + c) : u4{0, 0, 0, 0});
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
