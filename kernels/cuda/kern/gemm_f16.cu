// Matrix products of f16.
#include "gemm.h"
KERNEL2(256, 2) gemm_f16_128(const lb_gemm_args p GRID_CONST) { gemm<tile128<f16>, false>(p); }
KERNEL2(128, 4) gemm_f16_64(const lb_gemm_args p GRID_CONST) { gemm<tile64<f16>, false>(p); }
KERNEL(128) gemm_f16_16(const lb_gemm_args p GRID_CONST) { gemm<tile16<f16>, false>(p); }
KERNEL(256) gemm_f16_128_parts(const lb_gemm_args p GRID_CONST) { gemm<tile128<f16>, true>(p); }
KERNEL2(128, 4) gemm_f16_64_parts(const lb_gemm_args p GRID_CONST) { gemm<tile64<f16>, true>(p); }
KERNEL(128) gemm_f16_16_parts(const lb_gemm_args p GRID_CONST) { gemm<tile16<f16>, true>(p); }
