// Gather: rows of a table by index, converted.
#include "args_map.h"
#include "vec.h"

DEV bool rows_aligned(const lb_view &v)
{
	u64 all = v.ptr | (u64)v.stride[0] * size_of(v.dtype);
	return v.col == 1 && (all & 15) == 0;
}

KERNEL(256) gather(const lb_gather_args p GRID_CONST)
{
	u32 per = ((u32)p.columns + 7) / 8, count = (u32)p.rows * per;
	bool from = rows_aligned(p.table), to = rows_aligned(p.dst);
	const i32 *ids = (const i32 *)global(p.ids);
	NO_UNROLL
	for (u32 k = 0; k < LB_MAP_VECTORS; k++) {
		u32 i = (bx() * LB_MAP_VECTORS + k) * LB_MAP_THREADS + tid();
		if (i >= count)
			return;
		u32 row = i / per, col = (i - row * per) * 8;
		i32 n = min((i32)((u32)p.columns - col), 8);
		f32 v[8];
		get8(v, p.table, from, ids[row] * p.table.stride[0] + col * p.table.col, p.table.col, n);
		put8(v, p.dst, to, row * p.dst.stride[0] + col * p.dst.col, p.dst.col, n);
	}
}
