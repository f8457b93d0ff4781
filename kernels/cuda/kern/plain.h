// A product of two matrices in fp32, tile by tile; shared by the products and the convolutions. Operands have any types.
// They are converted to fp32 before they are written to shared memory.
#pragma once
#include "tile.h"
#include "epilogue.h"

constexpr int DEPTH = 16; // terms of a slice

// A block of THREADS threads computes SIZE x SIZE sums. Each thread has QUADS x QUADS blocks of 4 x 4, at a distance of
// SIZE / QUADS. Shared memory has two slices of both operands, term by term.
template <int SIZE_, int QUADS_> struct plain_tile {
	static constexpr int SIZE = SIZE_, QUADS = QUADS_, STEP = SIZE / QUADS, THREADS = (STEP / 4) * (STEP / 4);
	static constexpr int PITCH = SIZE + 4, SIDE = DEPTH * PITCH;       // floats of an operand's slice
	static constexpr int LOADS = SIZE * DEPTH / 8 / THREADS;           // a thread loads so many times eight terms
	static_assert(SIZE * DEPTH / 8 % THREADS == 0, "threads share a slice");
};

// operand is x or w: rows of any type, which become fp32 on the way.
template <class L> struct operand {
	u64 row[L::LOADS];
	bool in[L::LOADS];
	i64 col;
	i32 dtype;
	bool fast;
	f32 next[L::LOADS][8]; // the chunks on their way to shared memory

	LB_ALWAYS void fetch(int k, int end)
	{
		UNROLL
		for (int i = 0; i < L::LOADS; i++) {
			int from = k + ((int)tid() + i * L::THREADS) % (DEPTH / 8) * 8, n = in[i] ? end - from : 0;
			if (fast && n >= 8 && (k & 7) == 0) {
				ld8(next[i], row[i], dtype, from);
				continue;
			}
			UNROLL
			for (int j = 0; j < 8; j++)
				next[i][j] = j < n ? ld(row[i], dtype, (from + j) * col) : 0;
		}
	}
	LB_ALWAYS void put(f32 *slice) const
	{
		UNROLL
		for (int i = 0; i < L::LOADS; i++) {
			int at = (int)tid() + i * L::THREADS;
			UNROLL
			for (int j = 0; j < 8; j++)
				slice[(at % (DEPTH / 8) * 8 + j) * L::PITCH + at / (DEPTH / 8)] = next[i][j];
		}
	}
	// lines says which rows this thread loads.
	template <class F> LB_ALWAYS void lines(F at)
	{
		UNROLL
		for (int i = 0; i < L::LOADS; i++)
			row[i] = at(((int)tid() + i * L::THREADS) / (DEPTH / 8), &in[i]);
	}
};

// four loads four neighbours.
DEV void four(f32 *out, const f32 *p)
{
	u4 v = ld16(p);
	UNROLL
	for (int i = 0; i < 4; i++)
		out[i] = float_of(v.v[i]);
}

// add adds the products of a slice to the sums.
template <class L> LB_ALWAYS void add(f32 (&s)[L::QUADS * 4][L::QUADS * 4], const f32 *a, const f32 *b)
{
	int y = (int)tid() / (L::STEP / 4) * 4, x = (int)tid() % (L::STEP / 4) * 4;
	UNROLL
	for (int k = 0; k < DEPTH; k++) {
		f32 u[L::QUADS * 4], v[L::QUADS * 4];
		UNROLL
		for (int q = 0; q < L::QUADS; q++) {
			four(u + q * 4, a + k * L::PITCH + q * L::STEP + y);
			four(v + q * 4, b + k * L::PITCH + q * L::STEP + x);
		}
		UNROLL
		for (int i = 0; i < L::QUADS * 4; i++)
			UNROLL
			for (int j = 0; j < L::QUADS * 4; j++)
				s[i][j] = fma_(u[i], v[j], s[i][j]);
	}
}

// close adds the finished sums of a part to those of the parts before it, and starts over.
template <class L> LB_ALWAYS void close(f32 (&total)[L::QUADS * 4][L::QUADS * 4], f32 (&s)[L::QUADS * 4][L::QUADS * 4])
{
	UNROLL
	for (int i = 0; i < L::QUADS * 4; i++)
		UNROLL
		for (int j = 0; j < L::QUADS * 4; j++) {
			total[i][j] += s[i][j];
			s[i][j] = 0;
		}
}

// store stores the sums to dst, up to 64 rows at a time through shared memory.
template <class L> LB_ALWAYS void store(const epilogue &e, f32 (&s)[L::QUADS * 4][L::QUADS * 4], i64 row0, int col0, i64 m, int n)
{
	constexpr int ROWS = L::STEP, PITCH = L::SIZE + 8;
	f32 *out = (f32 *)smem();
	int y = (int)tid() / (L::STEP / 4) * 4, x = (int)tid() % (L::STEP / 4) * 4;
	UNROLL
	for (int q = 0; q < L::QUADS; q++) {
		BAR(3); // all threads have read the old content
		UNROLL
		for (int i = 0; i < 4; i++)
			UNROLL
			for (int j = 0; j < L::QUADS * 4; j++)
				out[(y + i) * PITCH + j / 4 * L::STEP + x + j % 4] = s[q * 4 + i][j];
		BAR(4);
		store_rows(e, out, PITCH, ROWS, L::SIZE, row0 + q * ROWS, col0, m, n);
	}
}
