// Matrix products of bf16.
#include "gemm.h"
#if LB_TENSOR_BF16
KERNEL2(256, 2) gemm_bf16_128(const lb_gemm_args p GRID_CONST) { gemm<tile128<bf16>, false>(p); }
KERNEL2(128, 4) gemm_bf16_64(const lb_gemm_args p GRID_CONST) { gemm<tile64<bf16>, false>(p); }
KERNEL(128) gemm_bf16_16(const lb_gemm_args p GRID_CONST) { gemm<tile16<bf16>, false>(p); }
KERNEL(256) gemm_bf16_128_parts(const lb_gemm_args p GRID_CONST) { gemm<tile128<bf16>, true>(p); }
KERNEL2(128, 4) gemm_bf16_64_parts(const lb_gemm_args p GRID_CONST) { gemm<tile64<bf16>, true>(p); }
KERNEL(128) gemm_bf16_16_parts(const lb_gemm_args p GRID_CONST) { gemm<tile16<bf16>, true>(p); }
#endif
