// Attention on the tensor cores for heads of D = 64 or 72 channels of 16 bits, after FlashAttention-2 (Dao, arXiv
// 2307.08691): keys in passes of 64, with an online softmax. A head of 72 is not padded: its products have 4 steps of
// 16 terms and one of 8. Its rows of 144 bytes need no swizzle in shared memory, because eight of them begin in eight
// different groups of banks. In rows of 128 bytes, the chunks are exchanged depending on the row, for the same effect.
//
// The bits of a query depend only on itself and its keys: keys beyond a length have weight 0, which changes no sum.
#pragma once
#include "heads.h"

template <class T_, int D_, int TILES_> struct attn_of {
	typedef T_ T;
	static constexpr int D = D_, CHUNKS = D / 8, STEPS = D / 16, TILES = TILES_; // TILES x 16 queries of a warp
	static constexpr bool TAIL = D % 16 != 0;
	static constexpr int KEYS = LB_ATTN_KEYS, GROUPS = KEYS / 16;

	DEV int slot(int r, int c) { return TAIL ? r * D + c * 8 : r * D + ((c ^ (r & 7)) * 8); }
};

// load_rows starts to copy rows [0, rows) of a head to shared memory. Only `valid` rows exist; the others become zeros.
// The first `threads` threads share the work.
template <class L>
LB_ALWAYS void load_rows(u16 *to, const u16 *from, const lb_heads &h, bool fast, int rows, int valid, int thread, int threads)
{
	NO_UNROLL
	for (int i = thread; i < rows * L::CHUNKS; i += threads) {
		int r = i / L::CHUNKS, c = i % L::CHUNKS;
		u16 *at = to + L::slot(r, c);
		const u16 *row = from + (r < valid ? r : 0) * h.seq;
		if (fast) {
			cp16(at, row + c * 8, r < valid ? 16 : 0);
			continue;
		}
		NO_UNROLL
		for (int j = 0; j < 8; j++)
			at[j] = r < valid ? row[(c * 8 + j) * h.chan] : 0;
	}
}

// state is the state of a warp's queries: fragments of q, sums of values, and the softmax. A lane has the rows lane / 4
// and lane / 4 + 8 of each tile.
template <class L> struct state {
	u32 q[L::TILES][L::STEPS + L::TAIL][4];
	f32 sums[L::TILES][L::CHUNKS][4];
	f32 top[L::TILES][2], total[L::TILES][2];

	// begin loads the queries from rows of shared memory.
	LB_ALWAYS void begin(const u16 *rows)
	{
		int l = (int)lane();
		UNROLL
		for (int m = 0; m < L::TILES; m++) {
			UNROLL
			for (int s = 0; s < L::STEPS; s++)
				ldm4(q[m][s], rows + L::slot(m * 16 + (l & 15), s * 2 + (l >> 4)));
			if (L::TAIL) {
				ldm2(q[m][L::STEPS], rows + L::slot(m * 16 + (l & 15), L::STEPS * 2));
				q[m][L::STEPS][2] = q[m][L::STEPS][3] = 0; // for code that multiplies a whole step of 16
			}
			UNROLL
			for (int c = 0; c < L::CHUNKS; c++)
				sums[m][c][0] = sums[m][c][1] = sums[m][c][2] = sums[m][c][3] = 0;
			UNROLL
			for (int h = 0; h < 2; h++) {
				top[m][h] = -__builtin_inff();
				total[m][h] = 0;
			}
		}
	}
};

// bias_of has the address of the bias of a warp's queries, if there is one, and a buffer in shared memory for 16 queries
// by half a pass of keys.
struct bias_of {
	static constexpr int PITCH = LB_ATTN_KEYS / 2 + 8;
	const lb_attn_args &p;
	f32 *room;
	i64 at; // of the warp's first query
	i32 row;

	LB_ALWAYS bias_of(const lb_attn_args &args, i32 head, i32 first, u8 *rooms)
		: p(args), room((f32 *)(rooms + warp_id() * LB_ATTN_BIAS_ROOM)), at(head * args.bias_head + first * args.bias_q),
		  row(first)
	{
		static_assert(16 * PITCH * 4 == LB_ATTN_BIAS_ROOM, "the host allows for it");
	}
	// fetch loads the bias of 16 queries from r on and of the keys from key0 on, scaled for powers of 2.
	LB_ALWAYS void fetch(int r, int key0, int keys) const
	{
		warp_bar(); // all lanes have read the old content
		NO_UNROLL
		for (int i = (int)lane(); i < 16 * LB_ATTN_KEYS / 2; i += 32) {
			int q = r + i / (LB_ATTN_KEYS / 2), key = key0 + i % (LB_ATTN_KEYS / 2);
			bool in = row + q < p.lq && key < keys;
			room[i / (LB_ATTN_KEYS / 2) * PITCH + i % (LB_ATTN_KEYS / 2)] =
				in ? ld(p.bias, p.bias_dtype, at + q * p.bias_q + key * p.bias_k) * LOG2E : 0;
		}
		warp_bar();
	}
};

// scores multiplies the queries with groups of 16 keys.
template <class L> LB_ALWAYS void scores(f32 (&s)[L::TILES][L::GROUPS * 2][4], const state<L> &st, const u16 *k, int groups)
{
	int l = (int)lane();
	UNROLL
	for (int g = 0; g < L::GROUPS; g++) {
		UNROLL
		for (int m = 0; m < L::TILES; m++)
			UNROLL
			for (int e = 0; e < 4; e++)
				s[m][2 * g][e] = s[m][2 * g + 1][e] = 0;
		if (g >= groups)
			continue;
		UNROLL
		for (int i = 0; i < L::STEPS; i++) {
			u32 b[4];
			ldm4(b, k + L::slot(g * 16 + (l >> 4) * 8 + (l & 7), i * 2 + (l >> 3 & 1)));
			UNROLL
			for (int m = 0; m < L::TILES; m++) {
				mma16<typename L::T>(s[m][2 * g], st.q[m][i], b);
				mma16<typename L::T>(s[m][2 * g + 1], st.q[m][i], b + 2);
			}
		}
		if (L::TAIL) {
			u32 b[2];
			ldm2(b, k + L::slot(g * 16 + (l & 15), L::STEPS * 2));
			UNROLL
			for (int m = 0; m < L::TILES; m++) {
				mma8<typename L::T>(s[m][2 * g], st.q[m][L::STEPS], b);
				mma8<typename L::T>(s[m][2 * g + 1], st.q[m][L::STEPS], b + 1);
			}
		}
	}
}

// mask sets the scores of the keys from number `keys` on to -inf.
template <class L> LB_ALWAYS void mask(f32 (&s)[L::TILES][L::GROUPS * 2][4], int key0, int keys)
{
	int first = key0 + (int)lane() % 4 * 2;
	UNROLL
	for (int m = 0; m < L::TILES; m++)
		UNROLL
		for (int n = 0; n < L::GROUPS * 2; n++)
			UNROLL
			for (int e = 0; e < 4; e++)
				if (first + n * 8 + e % 2 >= keys)
					s[m][n][e] = -__builtin_inff();
}

// prepare converts scores to units in which a positive factor (1 with a bias or a negative scale) makes them exponents of
// 2. It also adds the bias, and masks.
template <class L, bool PARTIAL>
LB_ALWAYS void prepare(f32 (&s)[L::TILES][L::GROUPS * 2][4], const bias_of &bias, f32 scale, int key0, int keys)
{
	int l = (int)lane();
	if (bias.p.bias) {
		UNROLL
		for (int m = 0; m < L::TILES; m++)
			UNROLL
			for (int half = 0; half < 2; half++) {
				bias.fetch(m * 16, key0 + half * (L::KEYS / 2), keys);
				UNROLL
				for (int n = 0; n < L::GROUPS; n++)
					UNROLL
					for (int e = 0; e < 4; e++) {
						f32 &v = s[m][half * L::GROUPS + n][e];
						v = fma_(v, scale, bias.room[(l / 4 + e / 2 * 8) * bias_of::PITCH + n * 8 + l % 4 * 2 + e % 2]);
					}
			}
	} else if (scale < 0) {
		UNROLL
		for (int m = 0; m < L::TILES; m++)
			UNROLL
			for (int n = 0; n < L::GROUPS * 2; n++)
				UNROLL
				for (int e = 0; e < 4; e++)
					s[m][n][e] *= scale;
	}
	if (PARTIAL)
		mask<L>(s, key0, keys);
}

// larger is a single instruction, unlike max. It ignores a NaN, but the weight of this score becomes NaN.
DEV f32 larger(f32 a, f32 b) { return __builtin_fmaxf(a, b); }

// weigh turns the scores of a tile into weights 2^(unit (score - top)) and updates the softmax. The caller must multiply
// the sums of values so far by shrink.
template <class L>
LB_ALWAYS void weigh(state<L> &st, f32 (&s)[L::TILES][L::GROUPS * 2][4], f32 unit, int m, f32 (&shrinks)[2])
{
	UNROLL
	for (int h = 0; h < 2; h++) {
		f32 top = st.top[m][h];
		UNROLL
		for (int n = 0; n < L::GROUPS * 2; n++)
			top = larger(top, larger(s[m][n][2 * h], s[m][n][2 * h + 1]));
		top = larger(top, shfl_xor(top, 1));
		top = larger(top, shfl_xor(top, 2));
		f32 none = top == -__builtin_inff() ? 0 : top * unit; // no score so far: all weights are 0
		f32 shrink = ex2(fma_(st.top[m][h], unit, -none));
		shrinks[h] = shrink;
		st.top[m][h] = top;
		f32 total = st.total[m][h] * shrink;
		UNROLL
		for (int n = 0; n < L::GROUPS * 2; n++) {
			UNROLL
			for (int e = 2 * h; e < 2 * h + 2; e++)
				s[m][n][e] = ex2(fma_(s[m][n][e], unit, -none));
			total += s[m][n][2 * h] + s[m][n][2 * h + 1];
		}
		st.total[m][h] = total;
	}
}

// rescale multiplies the sums of values of a tile by the factors of weigh.
template <class L> LB_ALWAYS void rescale(state<L> &st, const f32 (&shrinks)[2], int m)
{
	UNROLL
	for (int c = 0; c < L::CHUNKS; c++)
		UNROLL
		for (int e = 0; e < 4; e++)
			st.sums[m][c][e] *= shrinks[e / 2];
}

// values adds the weighted values of groups of 16 keys.
template <class L> LB_ALWAYS void values(state<L> &st, f32 (&s)[L::TILES][L::GROUPS * 2][4], const u16 *v, int groups)
{
	int l = (int)lane();
	UNROLL
	for (int g = 0; g < L::GROUPS; g++) {
		if (g >= groups)
			continue;
		u32 w[L::TILES][4];
		UNROLL
		for (int m = 0; m < L::TILES; m++)
			UNROLL
			for (int e = 0; e < 4; e++)
				w[m][e] = pack2<typename L::T>(s[m][2 * g + e / 2][e % 2 * 2], s[m][2 * g + e / 2][e % 2 * 2 + 1]);
		UNROLL
		for (int c = 0; c < L::STEPS; c++) {
			u32 b[4];
			ldm4t(b, v + L::slot(g * 16 + (l & 15), c * 2 + (l >> 4)));
			UNROLL
			for (int m = 0; m < L::TILES; m++) {
				mma16<typename L::T>(st.sums[m][2 * c], w[m], b);
				mma16<typename L::T>(st.sums[m][2 * c + 1], w[m], b + 2);
			}
		}
		if (L::TAIL) {
			u32 b[2];
			ldm2t(b, v + L::slot(g * 16 + (l & 15), L::STEPS * 2));
			UNROLL
			for (int m = 0; m < L::TILES; m++)
				mma16<typename L::T>(st.sums[m][2 * L::STEPS], w[m], b);
		}
	}
}

// pass is one pass over 64 keys; with PARTIAL, fewer may be valid.
template <class L, bool PARTIAL>
LB_ALWAYS void pass(state<L> &st, const u16 *k, const u16 *v, const bias_of &bias, f32 scale, int key0, int keys)
{
	f32 s[L::TILES][L::GROUPS * 2][4];
	int groups = PARTIAL ? (keys - key0 + 15) / 16 : L::GROUPS;
	scores<L>(s, st, k, groups);
	prepare<L, PARTIAL>(s, bias, scale, key0, keys);
	f32 unit = bias.p.bias || scale < 0 ? 1 : scale;
	UNROLL
	for (int m = 0; m < L::TILES; m++) {
		f32 shrinks[2];
		weigh<L>(st, s, unit, m, shrinks);
		rescale<L>(st, shrinks, m);
	}
	values<L>(st, s, v, groups);
}

// store divides by the sums of the weights and stores the queries from row0 on. If the type and the alignment of dst
// allow it, they go through `room`, a buffer for the rows of a warp.
template <class L>
LB_ALWAYS void store(const lb_attn_args &p, const place &at, state<L> &st, u16 *room, int row0, int keys)
{
	int l = (int)lane();
	i64 first = at.first(p.dst);
	bool fast = p.dst.dtype == type_of<typename L::T>::code && aligned(p.dst);
	warp_bar(); // all lanes have read the old content of room
	UNROLL
	for (int m = 0; m < L::TILES; m++)
		UNROLL
		for (int h = 0; h < 2; h++) {
			f32 total = st.total[m][h];
			total += shfl_xor(total, 1);
			total += shfl_xor(total, 2);
			f32 factor = keys > 0 ? 1 / total : 0;
			int r = m * 16 + h * 8 + l / 4;
			UNROLL
			for (int c = 0; c < L::CHUNKS; c++) {
				f32 a = st.sums[m][c][2 * h] * factor, b = st.sums[m][c][2 * h + 1] * factor;
				int d = c * 8 + l % 4 * 2;
				if (fast) {
					*(u32 *)(room + L::slot(r, c) + l % 4 * 2) = pack2<typename L::T>(a, b);
				} else if (row0 + r < p.lq) {
					i64 to = first + (row0 + r) * p.dst.seq;
					st_one(p.dst, to + d * p.dst.chan, a);
					st_one(p.dst, to + (d + 1) * p.dst.chan, b);
				}
			}
		}
	if (!fast)
		return;
	warp_bar();
	NO_UNROLL
	for (int i = l; i < L::TILES * 16 * L::CHUNKS; i += 32) {
		int r = i / L::CHUNKS, c = i % L::CHUNKS;
		if (row0 + r < p.lq)
			st16((u16 *)global(p.dst.ptr) + first + (row0 + r) * p.dst.seq + c * 8, ld16(room + L::slot(r, c)));
	}
}
