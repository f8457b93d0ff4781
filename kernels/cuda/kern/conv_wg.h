// The convolution as one product, by warpgroups (sm_90a).
#pragma once
#include "warpgroup.h"
#include "conv.h"
#if LB_WGMMA

template <class L> LB_ALWAYS void conv_warpgroups(const lb_conv_args &p)
{
	i64 m = rows_of(p.out), row0;
	int col0;
	block_of(bx(), m, p.cout, L::BM, L::BN, &row0, &col0);
	conv_source<L> src(p, row0, col0, m);
	f32 s[L::SUMS];
	accumulate_warpgroups<L, false>(src, s, s);
	store_warpgroups<L>(epilogue(p.ep, p.out), s, row0, col0, m, p.cout);
}
#endif
