// The matrix product of two operands of one 16-bit type: dst = epilogue(x w^T).
#pragma once
#include "tile.h"
#include "epilogue.h"

// cursor_of is a position in the terms of a sum. It moves slice by slice and part by part.
template <int SLICE> struct cursor_of {
	int k, end, part;

	LB_ALWAYS cursor_of(const lb_gemm_args &p) : k(0), part(0) { end = p.parts ? p.part[0] : p.k; }
	// next moves to the next slice and reports whether a part has ended.
	LB_ALWAYS bool next(const lb_gemm_args &p)
	{
		k += SLICE;
		if (k < end)
			return false;
		k = end;
		part++;
		if (part <= p.parts)
			end = part < p.parts ? p.part[part] : p.k;
		return true;
	}
};
// lines are the rows of one operand that a thread loads: chunk tid % CHUNKS of row tid / CHUNKS and of every STEP-th after.
template <class L, int N> struct lines {
	static constexpr int STEP = L::THREADS / L::CHUNKS;
	const u16 *row[N];
	bool in[N];
	i64 col;
	bool fast;

	// load starts to copy the thread's chunks of the slice from term k on.
	LB_DEVICE void load(u16 *slice, int k, int end) const
	{
		int r = (int)tid() / L::CHUNKS, c = (int)tid() % L::CHUNKS;
		if (L::WHOLE && fast && (k & 7) == 0 && k + L::SLICE <= end) {
			UNROLL
			for (int i = 0; i < N; i++)
				cp16(slice + L::slot(r + i * STEP, c), row[i] + k + c * CHUNK, in[i] ? 16 : 0);
			return;
		}
		UNROLL
		for (int i = 0; i < N; i++)
			copy_chunk<typename L::T>(slice + L::slot(r + i * STEP, c), row[i], col, k + c * CHUNK, end, in[i], fast && (k & 7) == 0);
	}
};

// gemm_source loads the slices of a tile for accumulate.
template <class L> struct gemm_source {
	const lb_gemm_args &p;
	cursor_of<L::SLICE> loading, summing;
	static constexpr int STEP = L::THREADS / L::CHUNKS, NA = L::RA ? L::RA : 1;
	lines<L, NA> a;
	lines<L, L::RB> b;

	LB_ALWAYS gemm_source(const lb_gemm_args &args, i64 row0, int col0, i64 m) : p(args), loading(args), summing(args)
	{
		int r = (int)tid() / L::CHUNKS;
		UNROLL
		for (int i = 0; i < NA; i++) {
			i64 row = row0 + r + i * STEP;
			a.in[i] = row < m;
			a.row[i] = (const u16 *)global(p.x.ptr) + (a.in[i] ? offset_of(p.rows, p.x, (u32)row) : 0);
		}
		UNROLL
		for (int i = 0; i < L::RB; i++) {
			int row = col0 + r + i * STEP;
			b.in[i] = row < p.n;
			b.row[i] = (const u16 *)global(p.w) + (b.in[i] ? row * p.w_row : 0);
		}
		a.col = p.x.col;
		b.col = p.w_col;
		a.fast = aligned(p.rows, p.x);
		b.fast = p.w_col == 1 && ((p.w | (u64)p.w_row * 2) & 15) == 0;
	}
	LB_ALWAYS bool more() const { return loading.k < p.k; }
	LB_ALWAYS bool left() const { return summing.k < p.k; }
	LB_ALWAYS int halves() const { return summing.end - summing.k > L::SLICE / 2 ? 2 : 1; }
	LB_ALWAYS bool next() { return summing.next(p); }
	LB_ALWAYS void load(u16 *stage)
	{
		if (L::RA || (int)tid() < L::BM * L::CHUNKS) // a small tile has fewer chunks than threads
			a.load(stage, loading.k, loading.end);
		b.load(stage + L::BM * L::SLICE, loading.k, loading.end);
		loading.next(p);
	}
};

// begin_sums sets the sums of a tile to zero, or to the operand onto.
template <class L> LB_ALWAYS void begin_sums(sums_of<L> &s, const lb_gemm_args &p, i64 row0, int col0, i64 m)
{
	int l = (int)lane(), wm = (int)warp_id() % L::WARPS_M, wn = (int)warp_id() / L::WARPS_M;
	sums_of<L>::clear(s);
	if (!p.onto.ptr)
		return;
	UNROLL
	for (int i = 0; i < L::TM; i++)
		UNROLL
		for (int e = 0; e < 4; e += 2) {
			i64 row = row0 + (wm * L::TM + i) * 16 + l / 4 + e * 4;
			if (row >= m)
				continue;
			i64 at = offset_of(p.rows, p.onto, (u32)row);
			UNROLL
			for (int j = 0; j < L::TN; j++) {
				int c = col0 + (wn * L::TN + j) * 8 + l % 4 * 2;
				for (int h = 0; h < 2; h++)
					if (c + h < p.n)
						s.v[i][j][e + h] = ((const f32 *)global(p.onto.ptr))[at + (c + h) * p.onto.col];
			}
		}
}

template <class L, bool PARTS> LB_ALWAYS void gemm(const lb_gemm_args &p)
{
	i64 m = rows_of(p.rows), row0;
	int col0;
	block_of(bx(), m, p.n, L::BM, L::BN, &row0, &col0);
	gemm_source<L> src(p, row0, col0, m);
	sums_of<L> s, total;
	if (PARTS)
		begin_sums<L>(total, p, row0, col0, m);
	accumulate<L, PARTS>(src, s, total);
	store_tile<L>(epilogue(p.ep, p.rows), PARTS ? total : s, row0, col0, m, p.n);
}

template <class T> using tile128 = tile_of<T, 128, 128, 2, 4, LB_STAGES>;
template <class T> using tile64 = tile_of<T, 64, 64, 2, 2, LB_STAGES>;
template <class T> using tile16 = tile_of<T, 16, 64, 1, 4, LB_STAGES_SMALL>;
