// Matrix products in fp32, of operands of any types. Each sum is computed by fused multiply-adds in the order of its
// terms, part by part.
#include "gemm.h"
#include "plain.h"

// begin sets the sums to zero, or to the operand onto.
template <class L> LB_ALWAYS void begin(f32 (&s)[L::QUADS * 4][L::QUADS * 4], const lb_gemm_args &p, i64 row0, int col0, i64 m)
{
	int y = (int)tid() / (L::STEP / 4) * 4, x = (int)tid() % (L::STEP / 4) * 4;
	UNROLL
	for (int i = 0; i < L::QUADS * 4; i++) {
		i64 row = row0 + i / 4 * L::STEP + y + i % 4;
		bool in = p.onto.ptr && row < m;
		i64 at = in ? offset_of(p.rows, p.onto, (u32)row) : 0;
		UNROLL
		for (int j = 0; j < L::QUADS * 4; j++) {
			int c = col0 + j / 4 * L::STEP + x + j % 4;
			s[i][j] = in && c < p.n ? ((const f32 *)global(p.onto.ptr))[at + c * p.onto.col] : 0;
		}
	}
}

template <class L> LB_ALWAYS void plain_gemm(const lb_gemm_args &p)
{
	i64 m = rows_of(p.rows), row0;
	int col0;
	block_of(bx(), m, p.n, L::SIZE, L::SIZE, &row0, &col0);
	operand<L> a, b;
	a.dtype = p.x.dtype;
	a.col = p.x.col;
	a.fast = aligned(p.rows, p.x);
	a.lines([&](int i, bool *in) {
		*in = row0 + i < m;
		return p.x.ptr + (*in ? (u64)offset_of(p.rows, p.x, (u32)(row0 + i)) * size_of(p.x.dtype) : 0);
	});
	b.dtype = p.w_dtype;
	b.col = p.w_col;
	b.fast = p.w_col == 1 && ((p.w | (u64)p.w_row * size_of(p.w_dtype)) & 15) == 0;
	b.lines([&](int i, bool *in) {
		*in = col0 + i < p.n;
		return p.w + (*in ? (u64)((col0 + i) * p.w_row) * size_of(p.w_dtype) : 0);
	});
	f32 total[L::QUADS * 4][L::QUADS * 4], s[L::QUADS * 4][L::QUADS * 4] = {};
	begin<L>(total, p, row0, col0, m);
	f32 *ring = (f32 *)smem();
	cursor_of<DEPTH> now(p);
	if (now.k < p.k) {
		a.fetch(now.k, now.end);
		b.fetch(now.k, now.end);
	}
	int stage = 0;
	NO_UNROLL
	while (now.k < p.k) {
		f32 *as = ring + stage * 2 * L::SIDE, *bs = as + L::SIDE;
		a.put(as);
		b.put(bs);
		BAR(1); // the slice is loaded; the other stage is free, because all threads have multiplied it before they came here
		bool ended = now.next(p);
		if (now.k < p.k) {
			a.fetch(now.k, now.end);
			b.fetch(now.k, now.end);
		}
		add<L>(s, as, bs);
		stage ^= 1;
		if (ended)
			close<L>(total, s);
	}
	store<L>(epilogue(p.ep, p.rows), total, row0, col0, m, p.n);
}

KERNEL(256) gemm_f32_128(const lb_gemm_args p GRID_CONST) { plain_gemm<plain_tile<128, 2>>(p); }
KERNEL(64) gemm_f32_32(const lb_gemm_args p GRID_CONST) { plain_gemm<plain_tile<32, 1>>(p); }
