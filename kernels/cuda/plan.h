/* What the host decides about a launch beyond the kernels' own headers: cgo has no pointers to pointers to Go
 * memory, so what needs them is done here. */
#ifndef LATENTBEAM_PLAN_H
#define LATENTBEAM_PLAN_H

#include "kern/kernels.h"

/* lb_plan_unary arranges the axes and chooses map_unary, or transpose where *transpose becomes 1. */
static inline lb_launch lb_plan_unary(lb_map_args *a, int *transpose)
{
	lb_view *views[2] = {&a->dst, &a->a};
	lb_map_arrange(&a->shape, views, 2);
	a->across = lb_copy_across(a);
	*transpose = a->across >= 0;
	return *transpose ? lb_transpose_launch(a) : lb_map_launch(a);
}

static inline lb_launch lb_plan_binary(lb_map_args *a)
{
	lb_view *views[3] = {&a->dst, &a->a, &a->b};
	lb_map_arrange(&a->shape, views, 3);
	return lb_map_launch(a);
}

#endif
