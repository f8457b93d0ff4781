// A product of two 16-bit matrices on the tensor cores, tile by tile; shared by the products and the convolutions. A block
// computes BM x BN sums. Slices of 32 terms of both operands are in a ring of STAGES in shared memory. Row r of a slice has
// 64 bytes, whose four chunks of 16 bytes are exchanged depending on r / 2, so that ldmatrix finds eight rows in eight
// different groups of banks.
#pragma once
#include "args_gemm.h"
#include "num.h"

constexpr int CHUNK = 8; // terms of 16 bytes

template <class T_, int BM_, int BN_, int WARPS_M_, int WARPS_N_, int STAGES_> struct tile_of {
	typedef T_ T;
	static constexpr int BM = BM_, BN = BN_, STAGES = LB_ARCH >= 800 ? STAGES_ : LB_STAGES_TURING;
	static constexpr int SLICE = 32, CHUNKS = SLICE / CHUNK; // terms of a slice
	static constexpr bool WHOLE = false;                      // there is no special load for slices that are full
	static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_, THREADS = WARPS_M * WARPS_N * 32;
	static constexpr int TM = BM / WARPS_M / 16, TN = BN / WARPS_N / 8; // matrices of a warp
	static constexpr int STAGE = (BM + BN) * SLICE;                     // elements
	static constexpr int RA = BM * SLICE / CHUNK / THREADS, RB = BN * SLICE / CHUNK / THREADS; // chunks a thread loads
	static_assert(BM % (WARPS_M * 16) == 0 && BN % (WARPS_N * 16) == 0, "warps share the tile");
	static_assert(RB > 0 && BN * SLICE / CHUNK % THREADS == 0, "threads share a slice");

	// slot returns the offset of chunk c of row r of a slice, in elements.
	DEV int slot(int r, int c) { return r * SLICE + ((c ^ (r >> 1 & 3)) * CHUNK); }
};

// sums of a warp: TM x TN fragments.
template <class L> struct sums_of {
	f32 v[L::TM][L::TN][4];
	DEV void clear(sums_of &s)
	{
		UNROLL
		for (int i = 0; i < L::TM; i++)
			UNROLL
			for (int j = 0; j < L::TN; j++)
				s.v[i][j][0] = s.v[i][j][1] = s.v[i][j][2] = s.v[i][j][3] = 0;
	}
};

// multiply adds the products of half a slice (16 terms) to the sums.
template <class L> LB_ALWAYS void multiply(sums_of<L> &s, const u16 *stage, int half)
{
	int l = (int)lane(), wm = (int)warp_id() % L::WARPS_M, wn = (int)warp_id() / L::WARPS_M;
	const u16 *a = stage, *b = stage + L::BM * L::SLICE;
	u32 af[L::TM][4], bf[L::TN][2];
	UNROLL
	for (int i = 0; i < L::TM; i++)
		ldm4(af[i], a + L::slot((wm * L::TM + i) * 16 + (l & 15), half * 2 + (l >> 4)));
	UNROLL
	for (int j = 0; j < L::TN; j += 2)
		ldm4(bf[j], b + L::slot((wn * L::TN + j) * 8 + (l >> 4) * 8 + (l & 7), half * 2 + (l >> 3 & 1)));
	UNROLL
	for (int i = 0; i < L::TM; i++)
		UNROLL
		for (int j = 0; j < L::TN; j++)
			mma16<typename L::T>(s.v[i][j], af[i], bf[j]);
}

// load_next starts to load the next slice of a source, if there is one, into slot `fill` of the ring, and commits the group
// of copies.
template <class L, class S> LB_ALWAYS void load_next(S &src, u16 *ring, int &fill)
{
	if (src.more())
		src.load(ring + fill * L::STAGE);
	cp_commit();
	fill = fill + 1 == L::STAGES ? 0 : fill + 1;
}

// load_first fills all slots of the ring except one, which is filled while the first slice is multiplied.
template <class L, class S> LB_ALWAYS void load_first(S &src, u16 *ring, int &fill)
{
	NO_UNROLL
	while (fill < L::STAGES - 1)
		load_next<L>(src, ring, fill);
}

// accumulate runs over all slices of a source and leaves their sum in s. A source has
//   bool more()                  is there another slice to load?
//   void load(u16 *stage)        start to load it, and move to the next
//   bool left()                  is there another slice to multiply?
//   int halves()                 how many halves of it have terms
//   bool next()                  move to the next; true: a part of the sum has ended
// If sums have parts, total gets the sum of the parts.
template <class L, bool PARTS, class S> LB_ALWAYS void accumulate(S &src, sums_of<L> &s, sums_of<L> &total)
{
	u16 *ring = (u16 *)smem();
	sums_of<L>::clear(s);
	int fill = 0, at = 0;
	load_first<L>(src, ring, fill);
	NO_UNROLL
	while (src.left()) {
		cp_wait<L::STAGES - 2>();
		BAR(1); // the slice is loaded, and all threads have multiplied the one before
		load_next<L>(src, ring, fill);
		const u16 *stage = ring + at * L::STAGE;
		at = at + 1 == L::STAGES ? 0 : at + 1;
		multiply<L>(s, stage, 0);
		if (src.halves() == 2)
			multiply<L>(s, stage, 1);
		if (src.next() && PARTS) {
			UNROLL
			for (int i = 0; i < L::TM; i++)
				UNROLL
				for (int j = 0; j < L::TN; j++)
					UNROLL
					for (int e = 0; e < 4; e++)
						total.v[i][j][e] += s.v[i][j][e];
			sums_of<L>::clear(s);
		}
	}
	cp_wait<0>();
	BAR(2); // the ring is free for other use
}

// copy_chunk starts to copy the 8 terms of a row from k on to a slot. Terms from end on become zeros.
template <class T> LB_ALWAYS void copy_chunk(u16 *to, const u16 *row, i64 col, int k, int end, bool in, bool fast)
{
	int n = in ? min(end - k, CHUNK) : 0;
	if (fast) {
		cp16(to, n > 0 ? row + k : row, n > 0 ? (u32)n * 2 : 0);
		return;
	}
	NO_UNROLL
	for (int i = 0; i < CHUNK; i++)
		to[i] = i < n ? row[(k + i) * col] : 0;
}
