// A convolution as one matrix product: the rows are output pixels, the terms are the taps of the kernel, each with all
// input channels. The matrix is never stored: a thread that loads a row computes the input pixel of each tap.
#pragma once
#include "args_conv.h"
#include "tile.h"
#include "epilogue.h"

// pixel is an output pixel, described by the place of the first tap of its kernel.
struct pixel {
	i32 item;    // of the batch
	i32 t, y, x; // in frames, and in pixels after enlargement; negative in the zeros before them

	LB_ALWAYS void set(const lb_conv_args &p, i64 row, i64 m)
	{
		bool in = row < m; // otherwise no tap is inside a frame
		u32 i = in ? (u32)row : 0, w = (u32)p.out.dim[3], h = (u32)p.out.dim[2], d = (u32)p.out.dim[1];
		x = (i32)(i % w) * p.stride - p.left;
		i /= w;
		y = (i32)(i % h) * p.stride - p.top;
		i /= h;
		t = in ? (i32)(i % d) * p.stride_t - p.front : -(1 << 30);
		item = (i32)(i / d);
	}
	// at returns the offset of the input pixel of a tap. inside: whether there is one.
	LB_ALWAYS i64 at(const lb_conv_args &p, i32 kt, i32 ky, i32 kx, bool *inside) const
	{
		i32 tt = t + kt, yy = y + ky, xx = x + kx;
		*inside = tt >= 0 && tt < p.depth && yy >= 0 && yy < p.height * p.up && xx >= 0 && xx < p.width * p.up;
		if (p.up > 1) {
			yy = (i32)((u32)yy / (u32)p.up);
			xx = (i32)((u32)xx / (u32)p.up);
		}
		return *inside ? item * p.x.stride[0] + tt * p.x.stride[1] + yy * p.x.stride[2] + xx * p.x.stride[3] : 0;
	}
};

// taps is a position in the terms: slices of channels of one tap after the other.
template <int STEP> struct taps {
	i32 tap, kt, ky, kx, c; // c: the first channel of the slice

	LB_ALWAYS taps(const lb_conv_args &p) : tap(p.cin > 0 ? 0 : p.kt * p.kh * p.kw), kt(0), ky(0), kx(0), c(0) {}
	LB_ALWAYS bool more(const lb_conv_args &p) const { return tap < p.kt * p.kh * p.kw; }
	// next moves to the next slice and reports whether it is the first one of a tap.
	LB_ALWAYS bool next(const lb_conv_args &p)
	{
		c += STEP;
		if (c < p.cin)
			return false;
		c = 0;
		tap++;
		if (++kx == p.kw) {
			kx = 0;
			if (++ky == p.kh) {
				ky = 0;
				kt++;
			}
		}
		return true;
	}
};

// conv_source loads the slices of a tile for accumulate.
template <class L> struct conv_source {
	typedef typename L::T T;
	static constexpr int STEP = L::THREADS / L::CHUNKS, NA = L::RA, NB = L::RB;
	static_assert(NA > 0, "every thread loads pixels");
	const lb_conv_args &p;
	taps<L::SLICE> loading, summing;
	pixel a[NA];
	const u16 *from[NA]; // of the present tap
	bool inside[NA];
	const u16 *b[NB];
	bool b_in[NB];
	bool a_fast, b_fast;

	LB_ALWAYS conv_source(const lb_conv_args &args, i64 row0, int col0, i64 m) : p(args), loading(args), summing(args)
	{
		int r = (int)tid() / L::CHUNKS;
		UNROLL
		for (int i = 0; i < NA; i++)
			a[i].set(p, row0 + r + i * STEP, m);
		UNROLL
		for (int i = 0; i < NB; i++) {
			int row = col0 + r + i * STEP;
			b_in[i] = row < p.cout;
			b[i] = (const u16 *)global(p.w) + (b_in[i] ? row * p.w_row : 0);
		}
		a_fast = p.x.col == 1 && ((p.x.ptr | (u64)(p.x.stride[0] | p.x.stride[1] | p.x.stride[2] | p.x.stride[3]) * 2) & 15) == 0;
		b_fast = p.w_col == 1 && ((p.w | (u64)(p.w_row | p.w_tap) * 2) & 15) == 0;
		seek();
	}
	// seek computes the pixels of the next tap.
	LB_ALWAYS void seek()
	{
		UNROLL
		for (int i = 0; i < NA; i++)
			from[i] = (const u16 *)global(p.x.ptr) + a[i].at(p, loading.kt, loading.ky, loading.kx, &inside[i]);
	}
	LB_ALWAYS bool more() const { return loading.more(p); }
	LB_ALWAYS bool left() const { return summing.more(p); }
	LB_ALWAYS int halves() const { return p.cin - summing.c > L::SLICE / 2 ? 2 : 1; }
	LB_ALWAYS bool next() { return summing.next(p); }
	LB_ALWAYS void load(u16 *stage)
	{
		int r = (int)tid() / L::CHUNKS, chunk = (int)tid() % L::CHUNKS, c = loading.c + chunk * CHUNK;
		if (L::WHOLE && a_fast && b_fast && loading.c + L::SLICE <= p.cin) {
			UNROLL
			for (int i = 0; i < NA; i++)
				cp16(stage + L::slot(r + i * STEP, chunk), from[i] + (inside[i] ? c : 0), inside[i] ? 16 : 0);
			UNROLL
			for (int i = 0; i < NB; i++)
				cp16(stage + L::BM * L::SLICE + L::slot(r + i * STEP, chunk), b[i] + loading.tap * p.w_tap + c, b_in[i] ? 16 : 0);
			if (loading.next(p))
				seek();
			return;
		}
		UNROLL
		for (int i = 0; i < NA; i++)
			copy_chunk<T>(stage + L::slot(r + i * STEP, chunk), from[i], p.x.col, c, p.cin, inside[i], a_fast);
		UNROLL
		for (int i = 0; i < NB; i++)
			copy_chunk<T>(stage + L::BM * L::SLICE + L::slot(r + i * STEP, chunk), b[i] + loading.tap * p.w_tap, p.w_col, c, p.cin,
				b_in[i], b_fast);
		if (loading.next(p))
			seek();
	}
};

template <class L> LB_ALWAYS void conv(const lb_conv_args &p)
{
	i64 m = rows_of(p.out), row0;
	int col0;
	block_of(bx(), m, p.cout, L::BM, L::BN, &row0, &col0);
	conv_source<L> src(p, row0, col0, m);
	sums_of<L> s;
	accumulate<L, false>(src, s, s);
	store_tile<L>(epilogue(p.ep, p.out), s, row0, col0, m, p.cout);
}

template <class T> using conv128 = tile_of<T, 128, 128, 2, 4, LB_STAGES>;
template <class T> using conv32 = tile_of<T, 128, 32, 4, 1, LB_STAGES>;
template <class T> using conv64 = tile_of<T, 64, 64, 2, 2, LB_STAGES>;
