// Shared by the attention kernels: the addresses of an entry's rows, and the scale.
#pragma once
#include "args_attn.h"
#include "num.h"

constexpr f32 LOG2E = 1.44269504088896341f;

// place is one head of one entry.
struct place {
	i32 lead0, lead1, head;

	// place returns place number i: heads count fastest, then entries.
	LB_ALWAYS place(const lb_attn_args &p, u32 i)
	{
		head = (i32)(i % (u32)p.heads);
		i /= (u32)p.heads;
		lead1 = (i32)(i % (u32)p.lead[1]);
		lead0 = (i32)(i / (u32)p.lead[1]);
	}
	// first returns the offset of the first row of an operand.
	LB_ALWAYS i64 first(const lb_heads &h) const { return lead0 * h.lead[0] + lead1 * h.lead[1] + head * h.head; }
	// keys returns the number of valid keys.
	LB_ALWAYS i32 keys(const lb_attn_args &p) const { return p.lens ? ((const i32 *)global(p.lens))[lead0] : p.lk; }
};

// aligned reports whether every row of an operand of 16 bits begins at a multiple of 16 bytes and is dense.
DEV bool aligned(const lb_heads &h)
{
	u64 all = h.ptr | (u64)(h.lead[0] | h.lead[1] | h.seq | h.head) * 2;
	return h.chan == 1 && (all & 15) == 0;
}

DEV void st_one(const lb_heads &h, i64 at, f32 v) { st(h.ptr, h.dtype, at, v); }
