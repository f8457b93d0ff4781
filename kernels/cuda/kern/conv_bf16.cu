// Convolutions of bf16.
#include "conv.h"
#if LB_TENSOR_BF16
KERNEL2(256, 2) conv_bf16_128(const lb_conv_args p GRID_CONST) { conv<conv128<bf16>>(p); }
KERNEL2(128, 4) conv_bf16_32(const lb_conv_args p GRID_CONST) { conv<conv32<bf16>>(p); }
KERNEL2(128, 4) conv_bf16_64(const lb_conv_args p GRID_CONST) { conv<conv64<bf16>>(p); }
#endif
