// Attention of f16 heads of 64 and 72 channels.
#include "flash.h"
KERNEL2(128, 2) attn_f16_64(const lb_attn_args p GRID_CONST) { flash<long_heads<f16, 64>>(p); }
KERNEL2(128, 2) attn_f16_72(const lb_attn_args p GRID_CONST) { flash<long_heads<f16, 72>>(p); }
KERNEL2(128, 4) attn_short_f16_64(const lb_attn_args p GRID_CONST) { short_one<short_heads<f16, 64>>(p); }
KERNEL2(128, 4) attn_short_f16_72(const lb_attn_args p GRID_CONST) { short_one<short_heads<f16, 72>>(p); }
