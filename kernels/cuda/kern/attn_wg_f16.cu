// Attention of f16 heads of 64 and 72 channels by warpgroups.
#include "flash_wg.h"
#if LB_WGMMA
KERNEL2(LB_ATTN_WG_THREADS, 1) attn_wg_f16_64(const lb_attn_args p GRID_CONST) { flash_wg<groups_of<f16, 64>>(p); }
KERNEL2(LB_ATTN_WG_THREADS, 1) attn_wg_f16_72(const lb_attn_args p GRID_CONST) { flash_wg<groups_of<f16, 72>>(p); }
#endif
