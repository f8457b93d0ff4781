// The matrix product by warpgroups (sm_90a): dst = epilogue(x w^T).
#pragma once
#include "warpgroup.h"
#include "gemm.h"
#if LB_WGMMA

// begin_warpgroups sets the sums of a tile to zero, or to the operand onto.
template <class L> LB_ALWAYS void begin_warpgroups(f32 (&s)[L::SUMS], const lb_gemm_args &p, i64 row0, int col0, i64 m)
{
	UNROLL
	for (int i = 0; i < L::SUMS; i++)
		s[i] = 0;
	if (!p.onto.ptr)
		return;
	UNROLL
	for (int half = 0; half < 2; half++) {
		i64 row = row0 + (int)warp_id() * 16 + (int)lane() / 4 + half * 8;
		if (row >= m)
			continue;
		const f32 *from = (const f32 *)global(p.onto.ptr) + offset_of(p.rows, p.onto, (u32)row);
		UNROLL
		for (int j = 0; j < L::BN / 8; j++) {
			int c = col0 + j * 8 + (int)lane() % 4 * 2;
			for (int h = 0; h < 2; h++)
				if (c + h < p.n)
					s[j * 4 + half * 2 + h] = from[(c + h) * p.onto.col];
		}
	}
}

template <class L, bool PARTS> LB_ALWAYS void gemm_warpgroups(const lb_gemm_args &p)
{
	i64 m = rows_of(p.rows), row0;
	int col0;
	block_of(bx(), m, p.n, L::BM, L::BN, &row0, &col0);
	gemm_source<L> src(p, row0, col0, m);
	f32 s[L::SUMS], total[L::SUMS];
	if (PARTS)
		begin_warpgroups<L>(total, p, row0, col0, m);
	accumulate_warpgroups<L, PARTS>(src, s, total);
	store_warpgroups<L>(epilogue(p.ep, p.rows), PARTS ? total : s, row0, col0, m, p.n);
}

template <class T> using warpgroups128 = warpgroup_tile<T, 2, 128, LB_WG_STAGES>;
template <class T> using warpgroups64 = warpgroup_tile<T, 1, 64, LB_WG_STAGES_SMALL>;
#endif
