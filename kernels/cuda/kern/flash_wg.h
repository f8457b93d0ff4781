// Attention by warpgroups (wgmma, sm_90a), after FlashAttention-3 (Shah et al., arXiv 2407.08608). A block has two
// warpgroups of 64 queries each, and one that copies keys and values. It computes one tile after another, so that the first
// keys of the next tile are loaded while this one ends. Two products run at the same time: q k^T of a pass, and weights
// times values of the pass before. The softmax of one runs beside the other, and the warpgroups take turns to start products.
//
// Chunk c (16 bytes, 8 channels) of row r of a tile is at column c, row r: the PLAIN form of wgmma for keys (K-major,
// lead = a column, stride = 8 rows) and for values (MN-major, lead = 8 rows, stride = a column). A column has 16 bytes of
// padding, so that the chunks of a row are in different banks. A head of 72 has 9 columns. The products q k^T
// multiply 16 channels at a time, so keys have a further column of zeros, and queries have zeros in registers.
#pragma once
#include "wgmma.h"
#include "attn.h"

#if LB_WGMMA
template <class T, int D> struct groups_of : attn_of<T, D, 1> {
	typedef attn_of<T, D, 1> base;
	static constexpr int KEYS = LB_ATTN_WG_ROWS, GROUPS = KEYS / 16, COLUMN = LB_ATTN_WG_COLUMN;
	static constexpr int DEPTH = base::STEPS + base::TAIL; // steps of 16 channels
	static constexpr int TILE = base::CHUNKS * COLUMN, VALUES = 2 * DEPTH * COLUMN, STAGE = VALUES + TILE;
	static constexpr int STAGES = LB_ATTN_WG_STAGES;

	DEV int slot(int r, int c) { return c * COLUMN + r * 8; }
	DEV u16 *queries(int odd) { return (u16 *)smem() + odd * TILE; }
	DEV u16 *stage(int i) { return (u16 *)smem() + 2 * TILE + i * STAGE; }
};

// Barriers: a stage is full for one warpgroup; a stage is free; it is the turn of a warpgroup.
constexpr int FULL = 1, FREE = FULL + 2 * LB_ATTN_WG_STAGES, TURN = FREE + LB_ATTN_WG_STAGES;
constexpr int GROUP = 128; // threads of a warpgroup

// Registers of a thread: 168 at first (65536 / 384, a multiple of 8).
constexpr int COPIER_REGISTERS = 40, WORKER_REGISTERS = 232;
static_assert(COPIER_REGISTERS + 2 * WORKER_REGISTERS == 3 * 168 && LB_ATTN_WG_THREADS == 3 * GROUP, "no more than there are");

// tile is 128 queries of a head.
struct tile {
	place at;
	int q0, keys, passes;

	// A tile with few keys, which single warps compute, has no passes.
	LB_ALWAYS tile(const lb_attn_args &p, u32 i, u32 down)
		: at(p, i / down), q0((int)(i % down) * LB_ATTN_WG_ROWS), keys(at.keys(p)),
		  passes(keys > LB_ATTN_SHORT ? (keys + LB_ATTN_WG_ROWS - 1) / LB_ATTN_WG_ROWS : 0)
	{
	}
};

// tiles has the number of tiles, in all and of a head. A block computes every grid_x()-th tile.
struct tiles {
	u32 down, count;

	LB_ALWAYS tiles(const lb_attn_args &p)
		: down((u32)((p.lq + LB_ATTN_WG_ROWS - 1) / LB_ATTN_WG_ROWS)),
		  count(down * (u32)(p.lead[0] * p.lead[1] * p.heads))
	{
	}
};

// copy_rows starts to copy 128 rows of a head by a warpgroup. Only `valid` rows exist; the others become zeros. Eight
// threads copy a row; if it has a ninth chunk, these are copied at the end.
template <class L> LB_ALWAYS void copy_rows(u16 *to, const u16 *from, const lb_heads &h, bool fast, int valid)
{
	constexpr int ROWS = GROUP / 8; // at a time
	int t = (int)tid() % GROUP;
	if (!fast) {
		NO_UNROLL
		for (int i = t; i < L::KEYS * L::D; i += GROUP) {
			int r = i / L::D, d = i % L::D;
			to[L::slot(r, d / 8) + d % 8] = r < valid ? from[r * h.seq + d * h.chan] : 0;
		}
		return;
	}
	u16 *at = to + L::slot(t / 8, t % 8);
	const u16 *row = from + t / 8 * h.seq + t % 8 * 8;
	UNROLL
	for (int r = 0; r < L::KEYS; r += ROWS, row += ROWS * h.seq)
		cp16(at + r * 8, row, r + t / 8 < valid ? 16 : 0);
	if (L::CHUNKS > 8)
		cp16(to + L::slot(t, 8), from + t * h.seq + 64, t < valid ? 16 : 0);
}

template <class L> LB_ALWAYS void copier(const lb_attn_args &p)
{
	const u16 *q = (const u16 *)global(p.q.ptr), *k = (const u16 *)global(p.k.ptr), *v = (const u16 *)global(p.v.ptr);
	bool qfast = aligned(p.q), kfast = aligned(p.k), vfast = aligned(p.v);
	int stage = 0, filled = 0, odd = 0;
	if (L::TAIL)
		for (int i = (int)tid() % GROUP; i < L::STAGES * L::KEYS; i += GROUP)
			st16(L::stage(i / L::KEYS) + L::slot(i % L::KEYS, L::CHUNKS), u4{}); // the column of zeros
	tiles all(p);
	NO_UNROLL
	for (u32 n = bx(); n < all.count; n += grid_x()) {
		tile t(p, n, all.down);
		NO_UNROLL
		for (int i = 0; t.passes > 0 && i <= t.passes; i++) {
			if (filled == L::STAGES)
				JOIN(2, FREE + stage, 3 * GROUP);
			else
				filled++;
			u16 *to = L::stage(stage);
			if (i == 0)
				copy_rows<L>(L::queries(odd), q + t.at.first(p.q) + t.q0 * p.q.seq, p.q, qfast, p.lq - t.q0);
			if (i < t.passes)
				copy_rows<L>(to, k + t.at.first(p.k) + i * L::KEYS * p.k.seq, p.k, kfast, t.keys - i * L::KEYS);
			if (i > 0)
				copy_rows<L>(to + L::VALUES, v + t.at.first(p.v) + (i - 1) * L::KEYS * p.v.seq, p.v, vfast,
					t.keys - (i - 1) * L::KEYS);
			cp_commit();
			cp_wait<0>();
			PROXY(3);
			SIGNAL(4, FULL + 2 * stage, 2 * GROUP);
			SIGNAL(5, FULL + 2 * stage + 1, 2 * GROUP);
			stage = stage + 1 < L::STAGES ? stage + 1 : 0;
		}
		odd ^= t.passes > 0;
	}
	NO_UNROLL
	for (int i = 0; i < filled; i++) { // wait until all stages are free, so that no barrier is left incomplete
		stage = stage > 0 ? stage - 1 : L::STAGES - 1;
		JOIN(6, FREE + stage, 3 * GROUP);
	}
}

// zero_of is 0, but the compiler cannot know that v is not this NaN. So code that uses the result runs only after v has been
// computed.
DEV int zero_of(f32 v) { return bits_of(v) == 0xffbadbad; }

// worker is a warpgroup that computes. Stage i of a tile has the keys of pass i and the values of pass i - 1, because these
// are multiplied at the same time. The stage after the last pass has only values.
template <class L> struct worker {
	typedef typename L::T T;
	const lb_attn_args &p;
	int group, stage;
	state<L> st;
	f32 s[1][L::GROUPS * 2][4];
	u32 w[L::GROUPS][4];

	LB_ALWAYS worker(const lb_attn_args &args) : p(args), group((int)warp_id() / 4), stage(0) {}
	LB_ALWAYS f32 (&scores())[L::GROUPS * 8] { return reinterpret_cast<f32 (&)[L::GROUPS * 8]>(s); }
	LB_ALWAYS f32 (&sums())[L::CHUNKS * 4] { return reinterpret_cast<f32 (&)[L::CHUNKS * 4]>(st.sums); }

	LB_ALWAYS int after(int i) const { return i + 1 < L::STAGES ? i + 1 : 0; }
	LB_ALWAYS void wait_full(int i, int zero) { JOIN(7, FULL + 2 * i + group + zero, 2 * GROUP); }
	LB_ALWAYS void leave()
	{
		SIGNAL(8, FREE + stage, 3 * GROUP);
		stage = after(stage);
	}
	LB_ALWAYS void turn() { JOIN(9, TURN + group, 2 * GROUP); }
	LB_ALWAYS void end_turn() { SIGNAL(10, TURN + 1 - group, 2 * GROUP); }

	LB_ALWAYS void begin_scores()
	{
		u64 k = matrix_at(L::stage(stage), PLAIN, L::COLUMN * 2, 128);
		UNROLL
		for (int i = 0; i < L::DEPTH; i++)
			wgmma<T, L::KEYS, false>(scores(), st.q[0][i], matrix_on(k, i * 4 * L::COLUMN), i > 0);
	}
	LB_ALWAYS void begin_values()
	{
		u64 v = matrix_at(L::stage(stage) + L::VALUES, PLAIN, 128, L::COLUMN * 2);
		UNROLL
		for (int g = 0; g < L::GROUPS; g++)
			wgmma<T, L::D, true>(sums(), w[g], matrix_on(v, g * 256), 1);
	}
	LB_ALWAYS void settle_weights()
	{
		UNROLL
		for (int g = 0; g < L::GROUPS; g++)
			settle(w[g]);
	}
	LB_ALWAYS void pack()
	{
		UNROLL
		for (int g = 0; g < L::GROUPS; g++)
			UNROLL
			for (int e = 0; e < 4; e++)
				w[g][e] = pack2<T>(s[0][2 * g + e / 2][e % 2 * 2], s[0][2 * g + e / 2][e % 2 * 2 + 1]);
	}

	LB_ALWAYS void first(const tile &t, const u16 *queries)
	{
		wait_full(stage, 0);
		st.begin(queries);
		UNROLL
		for (int i = 0; i < L::DEPTH; i++)
			settle(st.q[0][i]);
		turn();
		settle(scores());
		ARRIVE(11);
		begin_scores();
		COMMIT(12);
		end_turn();
		WAIT(13, 0);
		settle(scores());
		if (t.keys < L::KEYS)
			mask<L>(s, 0, t.keys);
		f32 shrinks[2];
		weigh<L>(st, s, p.scale * LOG2E, 0, shrinks);
		wait_full(after(stage), 0);
		pack();
		leave();
	}
	LB_ALWAYS void next(const tile &t, int key0)
	{
		turn();
		settle(scores());
		settle(sums());
		settle_weights();
		ARRIVE(14);
		begin_scores();
		COMMIT(15);
		ARRIVE(25);
		begin_values();
		COMMIT(16);
		end_turn();
		WAIT(17, 1);
		settle(scores());
		if (t.keys < key0 + L::KEYS)
			mask<L>(s, key0, t.keys);
		f32 shrinks[2];
		weigh<L>(st, s, p.scale * LOG2E, 0, shrinks);
		// ptxas would move the wait for the values before the softmax. It does not move it across a barrier.
		wait_full(after(stage), zero_of(st.total[0][0] + st.total[0][1]));
		WAIT(18, 0);
		settle(sums());
		settle_weights();
		rescale<L>(st, shrinks, 0);
		pack();
		leave();
	}
	LB_ALWAYS void last(const tile &t, u16 *queries, int row0)
	{
		turn();
		settle(sums());
		settle_weights();
		ARRIVE(19);
		begin_values();
		COMMIT(20);
		end_turn();
		WAIT(21, 0);
		settle(sums());
		store<L>(p, t.at, st, queries, row0, t.keys);
		leave();
	}
	LB_ALWAYS void run()
	{
		int odd = 0, row = (int)warp_id() * 16;
		if (group == 1)
			SIGNAL(22, TURN, 2 * GROUP);
		tiles all(p);
		NO_UNROLL
		for (u32 n = bx(); n < all.count; n += grid_x()) {
			tile t(p, n, all.down);
			if (t.passes == 0)
				continue;
			u16 *queries = L::queries(odd) + L::slot(row, 0);
			first(t, queries);
			NO_UNROLL
			for (int i = 1; i < t.passes; i++)
				next(t, i * L::KEYS);
			last(t, queries, t.q0 + row);
			odd ^= 1;
		}
		if (group == 0)
			JOIN(23, TURN, 2 * GROUP);
	}
};

template <class L> LB_ALWAYS void flash_wg(const lb_attn_args &p)
{
	if (tid() >= 2 * GROUP) {
		REGISTERS_LESS(COPIER_REGISTERS);
		copier<L>(p);
		return;
	}
	REGISTERS_MORE(WORKER_REGISTERS);
	worker<L> w(p);
	w.run();
}
#endif
