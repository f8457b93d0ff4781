// What is done to finished sums before they are stored: lb_epilogue, for eight neighbouring columns at a time.
#pragma once
#include "args_gemm.h"
#include "num.h"

// epilogue is the parameter of the kernel with facts that all rows share.
struct epilogue {
	const lb_epilogue &p;
	const lb_shape &rows;
	bool vectors; // every operand allows vectors

	LB_ALWAYS epilogue(const lb_epilogue &e, const lb_shape &r) : p(e), rows(r)
	{
		vectors = aligned(r, e.dst) && (!e.gate.ptr || aligned(r, e.gate)) &&
			(!e.residual.ptr || aligned(r, e.residual)) && (!e.bias || (e.bias_stride == 1 && (e.bias & 15) == 0));
	}
};

// round8 rounds to the type; act8 is act.
DEV void round8(f32 *v, i32 dtype)
{
	if (dtype == LB_BF16) {
		UNROLL
		for (int i = 0; i < 8; i++)
			v[i] = widen_bf16(narrow_bf16(v[i]));
	} else if (dtype == LB_F16) {
		UNROLL
		for (int i = 0; i < 8; i++)
			v[i] = widen_f16(narrow_f16(v[i]));
	}
}

// finish8 completes the sums of columns c to c + 8 of a row and stores them. Where dst has 16 bits, every
// intermediate is rounded to its type.
DEV void finish8(const epilogue &e, u32 row, int c, f32 *v)
{
	const lb_epilogue &p = e.p;
	f32 w[8];
	if (p.bias) {
		ld8(w, p.bias, p.bias_dtype, c);
		UNROLL
		for (int i = 0; i < 8; i++)
			v[i] += w[i];
	}
	if (p.act != LB_IDENTITY) {
		round8(v, p.dst.dtype);
		UNROLL
		for (int i = 0; i < 8; i++)
			v[i] = act(p.act, v[i]);
	}
	if (p.gate.ptr) {
		round8(v, p.dst.dtype);
		ld8(w, p.gate.ptr, p.gate.dtype, offset_of(e.rows, p.gate, row) + c);
		UNROLL
		for (int i = 0; i < 8; i++)
			v[i] *= w[i];
	}
	if (p.residual.ptr) {
		round8(v, p.dst.dtype);
		ld8(w, p.residual.ptr, p.residual.dtype, offset_of(e.rows, p.residual, row) + c);
		UNROLL
		for (int i = 0; i < 8; i++)
			v[i] += w[i];
	}
	st8(p.dst.ptr, p.dst.dtype, offset_of(e.rows, p.dst, row) + c, v);
}

// finish1 is finish8 for one column, with operands of any alignment.
DEV void finish1(const epilogue &e, u32 row, int c, f32 v)
{
	const lb_epilogue &p = e.p;
	i32 dtype = p.dst.dtype;
	if (p.bias)
		v += ld(p.bias, p.bias_dtype, c * p.bias_stride);
	if (p.act != LB_IDENTITY)
		v = act(p.act, rnd(dtype, v));
	if (p.gate.ptr)
		v = rnd(dtype, v) * ld(p.gate.ptr, p.gate.dtype, offset_of(e.rows, p.gate, row) + c * p.gate.col);
	if (p.residual.ptr)
		v = rnd(dtype, v) + ld(p.residual.ptr, p.residual.dtype, offset_of(e.rows, p.residual, row) + c * p.residual.col);
	st(p.dst.ptr, dtype, offset_of(e.rows, p.dst, row) + c * p.dst.col, v);
}

// store_rows finishes count x cols sums in shared memory, whose rows are `pitch` apart. They belong to the rows from row0
// on and the columns from col0 on of dst, as far as it has them. All threads of the block take part.
DEV void store_rows(const epilogue &e, const f32 *sums, int pitch, int count, int cols, i64 row0, int col0, i64 m, int n)
{
	int across = cols / 8;
	NO_UNROLL
	for (int i = (int)tid(); i < count * across; i += (int)nthreads()) {
		int r = i / across, c = i % across * 8;
		if (row0 + r >= m || col0 + c >= n)
			continue;
		int most = min(n - col0 - c, 8);
		if (!e.vectors || most < 8) {
			NO_UNROLL
			for (int j = 0; j < most; j++)
				finish1(e, (u32)(row0 + r), col0 + c + j, sums[r * pitch + c + j]);
			continue;
		}
		f32 v[8];
		UNROLL
		for (int j = 0; j < 8; j += 4) {
			u4 q = ld16(sums + r * pitch + c + j);
			UNROLL
			for (int k = 0; k < 4; k++)
				v[j + k] = float_of(q.v[k]);
		}
		finish8(e, (u32)(row0 + r), col0 + c, v);
	}
}

// store_tile stores the sums of a block from its registers to dst. Up to 64 rows at a time go through shared memory, so
// that a thread finishes neighbouring columns.
template <class L> LB_ALWAYS void store_tile(const epilogue &e, sums_of<L> &s, i64 row0, int col0, i64 m, int n)
{
	constexpr int ROWS = L::BM < 64 ? L::BM : 64, PITCH = L::BN + 8;
	f32 *out = (f32 *)smem();
	int l = (int)lane(), wm = (int)warp_id() % L::WARPS_M, wn = (int)warp_id() / L::WARPS_M;
	NO_UNROLL
	for (int from = 0; from < L::BM; from += ROWS) {
		if (from > 0)
			BAR(3); // all threads have read the rows before
		UNROLL
		for (int i = 0; i < L::TM; i++) {
			int r = (wm * L::TM + i) * 16 - from;
			if (r < 0 || r >= ROWS)
				continue;
			UNROLL
			for (int j = 0; j < L::TN; j++) {
				f32 *at = out + (r + l / 4) * PITCH + (wn * L::TN + j) * 8 + l % 4 * 2;
				at[0] = s.v[i][j][0];
				at[1] = s.v[i][j][1];
				at[8 * PITCH] = s.v[i][j][2];
				at[8 * PITCH + 1] = s.v[i][j][3];
			}
		}
		BAR(4);
		store_rows(e, out, PITCH, ROWS, L::BN, row0 + from, col0, m, n);
	}
}

// block_of returns the tile of a block. Consecutive blocks compute eight tiles one below the other, so that blocks that
// run at the same time share rows and columns in the L2 cache.
DEV void block_of(u32 b, i64 m, int n, int tile_m, int tile_n, i64 *row0, int *col0)
{
	u32 down = (u32)((m + tile_m - 1) / tile_m), across = (u32)((n + tile_n - 1) / tile_n);
	u32 first = b / (8 * across) * 8, in = b % (8 * across), high = down - first < 8 ? down - first : 8;
	*row0 = (i64)(first + in % high) * tile_m;
	*col0 = (int)(in / high) * tile_n;
}
