// Attention of bf16 heads of 64 and 72 channels by warpgroups.
#include "flash_wg.h"
#if LB_WGMMA
KERNEL2(LB_ATTN_WG_THREADS, 1) attn_wg_bf16_64(const lb_attn_args p GRID_CONST) { flash_wg<groups_of<bf16, 64>>(p); }
KERNEL2(LB_ATTN_WG_THREADS, 1) attn_wg_bf16_72(const lb_attn_args p GRID_CONST) { flash_wg<groups_of<bf16, 72>>(p); }
#endif
