/* The arguments of all kernels. */
#ifndef LB_KERNELS_H
#define LB_KERNELS_H
#include "args.h"
#include "args_attn.h"
#include "args_conv.h"
#include "args_gemm.h"
#include "args_map.h"
#include "args_norm.h"

/* lb_exists reports whether a kernel exists for a device of compute capability arch. least is the last column of
 * kernels.def: the lowest capability, or 90 for kernels of sm_90a (products of warpgroups), which exist for 90 only. */
static inline int lb_exists(lb_i32 least, lb_i32 arch) { return least == 90 ? arch == 90 : arch >= least; }
#endif
