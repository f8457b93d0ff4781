// Convolutions of bf16 by warpgroups.
#include "conv_wg.h"
#if LB_WGMMA
KERNEL2(256, 2) conv_wg_bf16_128(const lb_conv_args p GRID_CONST) { conv_warpgroups<warpgroup_tile<bf16, 2, 128, LB_WG_STAGES>>(p); }
KERNEL2(128, 2) conv_wg_bf16_64(const lb_conv_args p GRID_CONST) { conv_warpgroups<warpgroup_tile<bf16, 1, 64, LB_WG_STAGES_SMALL>>(p); }
#endif
