// Convolutions of fp16.
#include "conv.h"
KERNEL2(256, 2) conv_f16_128(const lb_conv_args p GRID_CONST) { conv<conv128<f16>>(p); }
KERNEL2(128, 4) conv_f16_32(const lb_conv_args p GRID_CONST) { conv<conv32<f16>>(p); }
KERNEL2(128, 4) conv_f16_64(const lb_conv_args p GRID_CONST) { conv<conv64<f16>>(p); }
