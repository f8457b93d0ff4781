// Attention of heads of any width and operands of any types, in fp32. A block computes 64 queries and up to 128
// channels of a head. If there are more channels, other blocks compute the same weights again. Each thread has
// 4 x 4 scores and 4 x 8 sums. Keys come in passes of 64. Every sum adds its terms or keys in their order, so that
// the bits of a query depend only on itself and its keys.
#include "heads.h"

constexpr int ROWS = LB_ATTN_ANY_QUERIES, KEYS = LB_ATTN_KEYS, CHANNELS = LB_ATTN_ANY_CHANNELS;
constexpr int DEPTH = 32;        // terms, or keys of values, in shared memory at a time
constexpr int PITCH = ROWS + 4;  // floats between terms, or between keys of the weights
constexpr int WIDE = CHANNELS + 4;
static_assert(DEPTH * WIDE <= 2 * DEPTH * PITCH && 2 * DEPTH * PITCH == KEYS * PITCH, "values lie where q and k did");

// gather copies DEPTH channels from d0 on of 64 rows to shared memory, term by term. Rows and channels that do not exist are 0.
DEV void gather(f32 *to, const lb_heads &h, i64 first, int row0, int rows, int d0, int d)
{
	NO_UNROLL
	for (int i = (int)tid(); i < DEPTH * ROWS; i += 256) {
		int r = i / DEPTH, c = i % DEPTH;
		bool in = row0 + r < rows && d0 + c < d;
		to[c * PITCH + r] = in ? ld(h.ptr, h.dtype, first + (row0 + r) * h.seq + (d0 + c) * h.chan) : 0;
	}
}

DEV void four(f32 *out, const f32 *p)
{
	u4 v = ld16(p);
	UNROLL
	for (int i = 0; i < 4; i++)
		out[i] = float_of(v.v[i]);
}

// softmax is the state of the four queries of a thread, which it shares with its 15 neighbours.
struct softmax {
	f32 top[4], total[4];
};

// weigh turns scores into weights, and returns in shrink the factors for earlier sums.
DEV void weigh(softmax &st, f32 (&s)[4][4], f32 *shrink)
{
	UNROLL
	for (int i = 0; i < 4; i++) {
		f32 top = max(max(s[i][0], s[i][1]), max(s[i][2], s[i][3]));
		UNROLL
		for (int m = 1; m < 16; m *= 2)
			top = max(top, shfl_xor(top, (u32)m));
		top = max(top, st.top[i]);
		f32 none = top == -__builtin_inff() ? 0 : top;
		shrink[i] = ex2(st.top[i] - none);
		st.top[i] = top;
		f32 total = 0;
		UNROLL
		for (int j = 0; j < 4; j++) {
			s[i][j] = ex2(s[i][j] - none);
			total += s[i][j];
		}
		UNROLL
		for (int m = 1; m < 16; m *= 2)
			total += shfl_xor(total, (u32)m);
		st.total[i] = fma_(st.total[i], shrink[i], total);
	}
}

// any is one block.
struct any {
	const lb_attn_args &p;
	place at;
	int row0, chan0, keys, x, y;
	f32 *terms, *weights;

	LB_ALWAYS any(const lb_attn_args &args, u32 head, int row, int chan)
		: p(args), at(args, head), row0(row), chan0(chan), keys(at.keys(args)), x((int)tid() % 16 * 4),
		  y((int)tid() / 16 * 4), terms((f32 *)smem()), weights((f32 *)smem() + KEYS * PITCH)
	{
	}

	// score computes the scores of the keys from key0 on, in powers of 2.
	LB_ALWAYS void score(f32 (&s)[4][4], int key0) const
	{
		f32 *qs = terms, *ks = terms + DEPTH * PITCH, scale = p.scale * LOG2E;
		UNROLL
		for (int i = 0; i < 4; i++)
			s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0;
		NO_UNROLL
		for (int d0 = 0; d0 < p.d; d0 += DEPTH) {
			BAR(1); // all threads have read the old content
			gather(qs, p.q, at.first(p.q), row0, p.lq, d0, p.d);
			gather(ks, p.k, at.first(p.k), key0, keys, d0, p.d);
			BAR(2);
			NO_UNROLL
			for (int c = 0; c < DEPTH; c++) {
				f32 a[4], b[4];
				four(a, qs + c * PITCH + y);
				four(b, ks + c * PITCH + x);
				UNROLL
				for (int i = 0; i < 4; i++)
					UNROLL
					for (int j = 0; j < 4; j++)
						s[i][j] = fma_(a[i], b[j], s[i][j]);
			}
		}
		UNROLL
		for (int i = 0; i < 4; i++)
			UNROLL
			for (int j = 0; j < 4; j++) {
				int row = row0 + y + i, key = key0 + x + j;
				f32 bias = 0;
				if (p.bias && row < p.lq && key < keys)
					bias = ld(p.bias, p.bias_dtype, at.head * p.bias_head + row * p.bias_q + key * p.bias_k) * LOG2E;
				s[i][j] = key < keys ? fma_(s[i][j], scale, bias) : -__builtin_inff();
			}
	}

	// add adds the weighted values of the keys from key0 on.
	LB_ALWAYS void add(f32 (&sums)[4][8], int key0) const
	{
		i64 first = at.first(p.v);
		NO_UNROLL
		for (int k0 = 0; k0 < KEYS && key0 + k0 < keys; k0 += DEPTH) {
			BAR(3); // all threads have read the terms or the values before, and written the weights
			NO_UNROLL
			for (int i = (int)tid(); i < DEPTH * CHANNELS; i += 256) {
				int r = key0 + k0 + i / CHANNELS, c = chan0 + i % CHANNELS;
				terms[i / CHANNELS * WIDE + i % CHANNELS] =
					r < keys && c < p.d ? ld(p.v.ptr, p.v.dtype, first + r * p.v.seq + c * p.v.chan) : 0;
			}
			BAR(4);
			NO_UNROLL
			for (int k = 0; k < DEPTH; k++) {
				f32 w[4], v[8];
				four(w, weights + (k0 + k) * PITCH + y);
				four(v, terms + k * WIDE + x);
				four(v + 4, terms + k * WIDE + CHANNELS / 2 + x);
				UNROLL
				for (int i = 0; i < 4; i++)
					UNROLL
					for (int j = 0; j < 8; j++)
						sums[i][j] = fma_(w[i], v[j], sums[i][j]);
			}
		}
	}

	LB_ALWAYS void run() const
	{
		f32 sums[4][8] = {};
		softmax st;
		UNROLL
		for (int i = 0; i < 4; i++) {
			st.top[i] = -__builtin_inff();
			st.total[i] = 0;
		}
		NO_UNROLL
		for (int key0 = 0; key0 < keys; key0 += KEYS) {
			f32 s[4][4], shrink[4];
			score(s, key0);
			weigh(st, s, shrink);
			UNROLL
			for (int i = 0; i < 4; i++) {
				UNROLL
				for (int j = 0; j < 4; j++)
					weights[(x + j) * PITCH + y + i] = s[i][j];
				UNROLL
				for (int j = 0; j < 8; j++)
					sums[i][j] *= shrink[i];
			}
			add(sums, key0);
		}
		i64 first = at.first(p.dst);
		UNROLL
		for (int i = 0; i < 4; i++) {
			f32 factor = keys > 0 ? 1 / st.total[i] : 0;
			UNROLL
			for (int j = 0; j < 8; j++) {
				int row = row0 + y + i, c = chan0 + j / 4 * (CHANNELS / 2) + x + j % 4;
				if (row < p.lq && c < p.d)
					st_one(p.dst, first + row * p.dst.seq + c * p.dst.chan, sums[i][j] * factor);
			}
		}
	}
};

KERNEL2(256, 2) attn_any(const lb_attn_args p GRID_CONST)
{
	u32 down = (u32)((p.lq + ROWS - 1) / ROWS), across = (u32)((p.d + CHANNELS - 1) / CHANNELS), b = bx();
	any block(p, b / (down * across), (int)(b / across % down) * ROWS, (int)(b % across) * CHANNELS);
	block.run();
}
