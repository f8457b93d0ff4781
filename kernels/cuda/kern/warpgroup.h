// A product of two 16-bit matrices by warpgroups (sm_90a), tile by tile; shared by the products and the convolutions. A block
// computes 64 GROUPS x BN sums, each warpgroup 64 rows. Slices of 64 terms of both operands are in a ring of STAGES in shared
// memory, in rows of 128 bytes whose chunks are exchanged by SWIZZLE_128. Loads use cp.async, so that a block waits only for
// its own threads. A multiprocessor runs two blocks: while one waits or stores, the other multiplies.
#pragma once
#include "wgmma.h"
#include "tile.h"
#include "epilogue.h"
#if LB_WGMMA

template <class T_, int GROUPS_, int BN_, int STAGES_> struct warpgroup_tile {
	typedef T_ T;
	static constexpr int GROUPS = GROUPS_, BM = 64 * GROUPS, BN = BN_, STAGES = STAGES_, THREADS = 128 * GROUPS;
	static constexpr int SLICE = 64, CHUNKS = SLICE / CHUNK; // terms of a slice
	static constexpr bool WHOLE = true;                      // there is a special load for slices that are full
	static constexpr int STAGE = (BM + BN) * SLICE;          // elements
	static constexpr int RA = BM * CHUNKS / THREADS, RB = BN * CHUNKS / THREADS; // chunks a thread loads
	static constexpr int SUMS = BN / 2;                                          // of a thread
	static constexpr u32 BLOCK = 8 * 128;                                        // bytes from eight rows to the next
	static_assert(BM * CHUNKS % THREADS == 0 && BN * CHUNKS % THREADS == 0, "threads share a slice");
	static_assert(STAGES * STAGE * 2 % BLOCK == 0 && STAGES > 2, "a slice is read, one is there, one is loaded");

	// slot returns the offset of chunk c of row r of a slice, in elements.
	DEV int slot(int r, int c) { return (int)swizzled((u32)(r * 128 + c * 16), SWIZZLE_128) / 2; }
};

// accumulate_warpgroups is accumulate of tile.h for warpgroups, with the same kind of source.
template <class L, bool PARTS, class S>
LB_ALWAYS void accumulate_warpgroups(S &src, f32 (&s)[L::SUMS], f32 (&total)[L::SUMS])
{
	u16 *ring = (u16 *)smem();
	UNROLL
	for (int i = 0; i < L::SUMS; i++)
		s[i] = 0;
	int fill = 0, at = 0;
	load_first<L>(src, ring, fill);
	NO_UNROLL
	while (src.left()) {
		cp_wait<L::STAGES - 2>();
		PROXY(5);
		BAR(6); // the slice is loaded, and all threads have multiplied the one before
		const u16 *stage = ring + at * L::STAGE;
		u64 a = matrix_at(stage + warp_id() / 4 * 64 * L::SLICE, SWIZZLE_128, 16, L::BLOCK);
		u64 b = matrix_at(stage + L::BM * L::SLICE, SWIZZLE_128, 16, L::BLOCK);
		at = at + 1 == L::STAGES ? 0 : at + 1;
		settle(s);
		ARRIVE(7);
		UNROLL
		for (u32 step = 0; step < L::SLICE / 16; step++)
			wgmma<typename L::T, L::BN, false>(s, matrix_on(a, step * 32), matrix_on(b, step * 32), 1);
		COMMIT(8);
		load_next<L>(src, ring, fill);
		WAIT(9, 0);
		settle(s);
		if (src.next() && PARTS) {
			UNROLL
			for (int i = 0; i < L::SUMS; i++) {
				total[i] += s[i];
				s[i] = 0;
			}
		}
	}
	cp_wait<0>();
	BAR(10); // the ring is free for other use
}

// store_warpgroups stores the sums of a block from its registers to dst, through shared memory, so that a thread finishes
// neighbouring columns.
template <class L> LB_ALWAYS void store_warpgroups(const epilogue &e, const f32 (&s)[L::SUMS], i64 row0, int col0, i64 m, int n)
{
	constexpr int PITCH = L::BN + 8;
	static_assert(L::BM * PITCH * 4 <= L::STAGES * L::STAGE * 2, "sums have room in the ring");
	f32 *out = (f32 *)smem() + ((int)warp_id() * 16 + (int)lane() / 4) * PITCH + (int)lane() % 4 * 2;
	UNROLL
	for (int j = 0; j < L::BN / 8; j++) {
		out[j * 8] = s[j * 4];
		out[j * 8 + 1] = s[j * 4 + 1];
		out[j * 8 + 8 * PITCH] = s[j * 4 + 2];
		out[j * 8 + 8 * PITCH + 1] = s[j * 4 + 3];
	}
	BAR(11);
	store_rows(e, (const f32 *)smem(), PITCH, L::BM, L::BN, row0, col0, m, n);
}

#endif // LB_WGMMA
