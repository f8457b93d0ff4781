// Matrix products of bf16 by warpgroups.
#include "gemm_wg.h"
#if LB_WGMMA
KERNEL2(256, 2) gemm_wg_bf16_128(const lb_gemm_args p GRID_CONST) { gemm_warpgroups<warpgroups128<bf16>, false>(p); }
KERNEL2(128, 2) gemm_wg_bf16_64(const lb_gemm_args p GRID_CONST) { gemm_warpgroups<warpgroups64<bf16>, false>(p); }
KERNEL(256) gemm_wg_bf16_128_parts(const lb_gemm_args p GRID_CONST) { gemm_warpgroups<warpgroups128<bf16>, true>(p); }
KERNEL2(128, 2) gemm_wg_bf16_64_parts(const lb_gemm_args p GRID_CONST) { gemm_warpgroups<warpgroups64<bf16>, true>(p); }
#endif
