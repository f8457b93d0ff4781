// Convolutions in fp32, of operands of any types. For each tap, fused multiply-adds run in the order of the channels. The
// sums of the taps are then added in their order.
#include "conv.h"
#include "plain.h"

template <class L> LB_ALWAYS void plain_conv(const lb_conv_args &p)
{
	i64 m = rows_of(p.out), row0;
	int col0;
	block_of(bx(), m, p.cout, L::SIZE, L::SIZE, &row0, &col0);
	operand<L> a, b;
	pixel pixels[L::LOADS];
	a.dtype = p.x.dtype;
	a.col = p.x.col;
	b.dtype = p.w_dtype;
	b.col = p.w_col;
	u64 x_size = size_of(p.x.dtype), w_size = size_of(p.w_dtype);
	u64 x_steps = (u64)(p.x.stride[0] | p.x.stride[1] | p.x.stride[2] | p.x.stride[3]) * x_size;
	a.fast = p.x.col == 1 && ((p.x.ptr | x_steps) & 15) == 0;
	b.fast = p.w_col == 1 && ((p.w | (u64)(p.w_row | p.w_tap) * w_size) & 15) == 0;
	b.lines([&](int i, bool *in) {
		*in = col0 + i < p.cout;
		return p.w + (*in ? (u64)((col0 + i) * p.w_row) * w_size : 0);
	});
	UNROLL
	for (int i = 0; i < L::LOADS; i++)
		pixels[i].set(p, row0 + ((int)tid() + i * L::THREADS) / (DEPTH / 8), m);
	taps<DEPTH> now(p);
	auto seek = [&](i64 w_step) {
		UNROLL
		for (int i = 0; i < L::LOADS; i++) {
			a.row[i] = p.x.ptr + (u64)pixels[i].at(p, now.kt, now.ky, now.kx, &a.in[i]) * x_size;
			b.row[i] += (u64)w_step * w_size;
		}
	};
	f32 total[L::QUADS * 4][L::QUADS * 4] = {}, s[L::QUADS * 4][L::QUADS * 4] = {};
	f32 *ring = (f32 *)smem();
	if (now.more(p)) {
		seek(0);
		a.fetch(0, p.cin);
		b.fetch(0, p.cin);
	}
	int stage = 0;
	NO_UNROLL
	while (now.more(p)) {
		f32 *as = ring + stage * 2 * L::SIDE, *bs = as + L::SIDE;
		a.put(as);
		b.put(bs);
		BAR(5); // the slice is loaded; the other stage is free, because all threads have multiplied it before they came here
		bool ended = now.next(p);
		if (now.more(p)) {
			if (ended)
				seek(p.w_tap);
			a.fetch(now.c, p.cin);
			b.fetch(now.c, p.cin);
		}
		add<L>(s, as, bs);
		stage ^= 1;
		if (ended)
			close<L>(total, s);
	}
	store<L>(epilogue(p.ep, p.out), total, row0, col0, m, p.cout);
}

KERNEL(256) conv_f32_128(const lb_conv_args p GRID_CONST) { plain_conv<plain_tile<128, 2>>(p); }
KERNEL2(64, 8) conv_f32_32(const lb_conv_args p GRID_CONST) { plain_conv<plain_tile<32, 1>>(p); }
