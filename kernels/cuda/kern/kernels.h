/* The arguments of all kernels. */
#ifndef LB_KERNELS_H
#define LB_KERNELS_H
#include "args.h"
#include "args_attn.h"
#include "args_conv.h"
#include "args_gemm.h"
#include "args_map.h"
#include "args_norm.h"
#endif
