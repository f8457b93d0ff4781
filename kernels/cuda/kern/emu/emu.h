// The dialect on a CPU: every thread of a block is a fiber. Fibers wait at barriers and at collectives of a warp, where the
// last one to arrive computes the results of all. Shared memory is NaN until it is written, and the target of a copy is NaN
// until the program has waited for the copy.
#pragma once
#include <string.h>

#ifndef LB_ARCH
#define LB_ARCH 900
#endif
#define LB_DEVICE
#define LB_ALWAYS inline
#define DEV static inline
#define GRID_CONST
#define KERNEL(threads) extern "C" void
#define KERNEL2(threads, blocks) extern "C" void
#define UNROLL
#define NO_UNROLL

// BAR(n) is a barrier that -DDROP_BARRIER=n leaves out, to show that the tests notice a missing barrier. The steps around
// products of warpgroups can be left out in the same way.
#ifdef DROP_BARRIER
#define LB_STEP(n, call) do { if ((n) != DROP_BARRIER) call; } while (0)
#else
#define LB_STEP(n, call) (void)(call)
#endif
#define BAR(n) LB_STEP(n, bar())
#define JOIN(n, id, threads) LB_STEP(n, emu::barrier_of(id, threads, true))
#define SIGNAL(n, id, threads) LB_STEP(n, emu::barrier_of(id, threads, false))

namespace emu {

// What the lanes of a warp do together.
enum Op : u8 {
	SHFL_XOR, SHFL, WARP_BAR, LDM4, LDM4T, LDM2, LDM2T, MMA16_BF16, MMA8_BF16, MMA16_F16, MMA8_F16,
	PROXY_FENCE, WG_ARRIVE, WG_COMMIT, WG_WAIT, WG_MULTIPLY, // those of async.h
};

// A Lane has the inputs and the results of one lane in a collective.
struct Lane {
	u32 in[6];
	const void *address;
	u32 out[4];
};

// meet enters a collective. It returns the result when all 32 lanes have entered.
Lane &meet(Op op, const u32 *in, int n, const void *address);

// Coordinates of the calling thread and of its block.
struct Place { u32 tid, threads, block[3], grid[3]; };
const Place &place();

u8 *shared();
u32 shared_address(const void *p);
void barrier();
void barrier_of(u32 id, u32 threads, bool join);
void copy_begin(void *to, const void *from, u32 bytes);
void copy_commit();
void copy_wait(int groups);

// Conversions, as kernels/half.go has them.
f32 from_f16(u16 h);
u16 to_f16(f32 v);

} // namespace emu

DEV u8 *smem() { return emu::shared(); }
DEV u32 tid() { return emu::place().tid; }
DEV u32 nthreads() { return emu::place().threads; }
DEV u32 bx() { return emu::place().block[0]; }
DEV u32 by() { return emu::place().block[1]; }
DEV u32 bz() { return emu::place().block[2]; }
DEV u32 grid_x() { return emu::place().grid[0]; }
DEV u32 grid_y() { return emu::place().grid[1]; }
DEV u32 grid_z() { return emu::place().grid[2]; }
DEV u32 lane() { return tid() & 31; }
DEV u32 warp_id() { return tid() >> 5; }

DEV void bar() { emu::barrier(); }
DEV void warp_bar() { emu::meet(emu::WARP_BAR, 0, 0, 0); }
DEV u32 shfl_xor(u32 v, u32 m)
{
	u32 in[2] = {v, m};
	return emu::meet(emu::SHFL_XOR, in, 2, 0).out[0];
}
DEV u32 shfl(u32 v, u32 from)
{
	u32 in[2] = {v, from};
	return emu::meet(emu::SHFL, in, 2, 0).out[0];
}
DEV f32 shfl_xor(f32 v, u32 m) { return __builtin_bit_cast(f32, shfl_xor(__builtin_bit_cast(u32, v), m)); }
DEV f32 shfl(f32 v, u32 from) { return __builtin_bit_cast(f32, shfl(__builtin_bit_cast(u32, v), from)); }

DEV f32 fma_(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
DEV f32 ex2(f32 v)
{
	f32 r = __builtin_exp2f(v);
	return r < 1.17549435e-38f ? 0 : r; // ex2.approx.ftz has no subnormals
}
DEV void *global(u64 p) { return (void *)p; }
DEV f32 rcp(f32 v) { return 1 / v; }
DEV f32 rsqrt(f32 v) { return 1 / __builtin_sqrtf(v); }

DEV u4 ld16(const void *p)
{
	if ((u64)p & 15)
		__builtin_trap(); // misaligned, as on the device
	return *(const u4 *)p;
}
DEV void st16(void *p, u4 v)
{
	if ((u64)p & 15)
		__builtin_trap();
	*(u4 *)p = v;
}

DEV void cp16(void *s, const void *g, u32 bytes) { emu::copy_begin(s, g, bytes); }
DEV void cp_commit() { emu::copy_commit(); }
template <int N> DEV void cp_wait() { emu::copy_wait(N); }

DEV void take(u32 *r, const emu::Lane &l, int n) { memcpy(r, l.out, n * 4); }
DEV void ldm4(u32 *r, const void *p) { take(r, emu::meet(emu::LDM4, 0, 0, p), 4); }
DEV void ldm4t(u32 *r, const void *p) { take(r, emu::meet(emu::LDM4T, 0, 0, p), 4); }
DEV void ldm2(u32 *r, const void *p) { take(r, emu::meet(emu::LDM2, 0, 0, p), 2); }
DEV void ldm2t(u32 *r, const void *p) { take(r, emu::meet(emu::LDM2T, 0, 0, p), 2); }

DEV void mma(emu::Op op, f32 *d, const u32 *a, int na, const u32 *b, int nb)
{
	u32 in[6];
	memcpy(in, a, na * 4);
	memcpy(in + na, b, nb * 4);
	emu::Lane &l = emu::meet(op, in, na + nb, 0);
	for (int i = 0; i < 4; i++)
		d[i] += __builtin_bit_cast(f32, l.out[i]);
}
template <class T> void mma8(f32 *d, const u32 *a, const u32 *b);
template <class T> void mma16(f32 *d, const u32 *a, const u32 *b);
template <> inline void mma8<f16>(f32 *d, const u32 *a, const u32 *b) { mma(emu::MMA8_F16, d, a, 2, b, 1); }
#if LB_ARCH >= 800
template <> inline void mma8<bf16>(f32 *d, const u32 *a, const u32 *b) { mma(emu::MMA8_BF16, d, a, 2, b, 1); }
template <> inline void mma16<bf16>(f32 *d, const u32 *a, const u32 *b) { mma(emu::MMA16_BF16, d, a, 4, b, 2); }
template <> inline void mma16<f16>(f32 *d, const u32 *a, const u32 *b) { mma(emu::MMA16_F16, d, a, 4, b, 2); }
#else
template <> inline void mma16<f16>(f32 *d, const u32 *a, const u32 *b)
{
	mma8<f16>(d, a, b);
	mma8<f16>(d, a + 2, b + 1);
}
#endif

DEV u16 narrow_f16(f32 v) { return emu::to_f16(v); }
DEV f32 widen_f16(u16 v) { return emu::from_f16(v); }
