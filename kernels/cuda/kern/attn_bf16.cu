// Attention of bf16 heads of 64 and 72 channels.
#include "flash.h"
#if LB_TENSOR_BF16
KERNEL2(128, 2) attn_bf16_64(const lb_attn_args p GRID_CONST) { flash<long_heads<bf16, 64>>(p); }
KERNEL2(128, 2) attn_bf16_72(const lb_attn_args p GRID_CONST) { flash<long_heads<bf16, 72>>(p); }
KERNEL2(128, 4) attn_short_bf16_64(const lb_attn_args p GRID_CONST) { short_one<short_heads<bf16, 64>>(p); }
KERNEL2(128, 4) attn_short_bf16_72(const lb_attn_args p GRID_CONST) { short_one<short_heads<bf16, 72>>(p); }
#endif
