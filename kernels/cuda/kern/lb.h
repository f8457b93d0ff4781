// The dialect of the kernels: the parts of CUDA that they use, under our own names. With the definitions below, clang
// compiles the kernels to PTX; with the definitions of emu/emu.h (LB_EMU), g++ compiles them to a CPU emulation. README.md
// has the rules.
#pragma once
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef float f32;

// The storage types of 16 bits, as template parameters.
struct bf16 { u16 bits; };
struct f16 { u16 bits; };

// 16 bytes, the most that one instruction moves.
struct alignas(16) u4 { u32 v[4]; };

#if defined(LB_EMU)
#include "emu/emu.h"
#else

#define LB_ARCH __CUDA_ARCH__
#define LB_DEVICE __attribute__((device))
#define DEV static LB_ALWAYS
#define LB_ALWAYS LB_DEVICE inline __attribute__((always_inline))
#define GRID_CONST __attribute__((grid_constant))
// KERNEL(largest number of threads) or KERNEL2(largest number of threads, blocks that a multiprocessor must be able to run),
// then name and parameter.
#define KERNEL(threads) extern "C" __attribute__((global, launch_bounds(threads))) void
#define KERNEL2(threads, blocks) extern "C" __attribute__((global, launch_bounds(threads, blocks))) void
#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("nounroll")
#define BAR(n) bar()
// Barriers of some threads (a multiple of 32), with ids from 1 to 15. JOIN waits for the other threads, SIGNAL does not.
#define JOIN(n, id, threads) asm volatile("bar.sync %0, %1;" :: "r"((u32)(id)), "n"(threads) : "memory")
#define SIGNAL(n, id, threads) asm volatile("bar.arrive %0, %1;" :: "r"((u32)(id)), "n"(threads) : "memory")

#ifndef LB_SHARED_ALIGN
#define LB_SHARED_ALIGN 128
#endif
extern __attribute__((device, shared, aligned(LB_SHARED_ALIGN))) u8 lb_shared_[];
DEV u8 *smem() { return lb_shared_; }

#define LB_SREG(name, reg) DEV u32 name() { u32 r; asm("mov.u32 %0, " reg ";" : "=r"(r)); return r; }
LB_SREG(tid, "%%tid.x")
LB_SREG(nthreads, "%%ntid.x")
LB_SREG(bx, "%%ctaid.x")
LB_SREG(by, "%%ctaid.y")
LB_SREG(bz, "%%ctaid.z")
LB_SREG(grid_x, "%%nctaid.x")
LB_SREG(grid_y, "%%nctaid.y")
LB_SREG(grid_z, "%%nctaid.z")
DEV u32 lane() { return tid() & 31; }
DEV u32 warp_id() { return tid() >> 5; }

DEV void bar() { asm volatile("bar.sync 0;" ::: "memory"); }
DEV void warp_bar() { asm volatile("bar.warp.sync -1;" ::: "memory"); }
DEV u32 shfl_xor(u32 v, u32 m)
{
	u32 r;
	asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=r"(r) : "r"(v), "r"(m));
	return r;
}
DEV u32 shfl(u32 v, u32 from)
{
	u32 r;
	asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, -1;" : "=r"(r) : "r"(v), "r"(from));
	return r;
}
DEV f32 shfl_xor(f32 v, u32 m)
{
	f32 r;
	asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=f"(r) : "f"(v), "r"(m));
	return r;
}
DEV f32 shfl(f32 v, u32 from)
{
	f32 r;
	asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, -1;" : "=f"(r) : "f"(v), "r"(from));
	return r;
}

DEV f32 fma_(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
DEV f32 ex2(f32 v) { f32 r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v)); return r; }

// global converts an address of device memory to a pointer. The compiler then knows that loads and stores through it are
// not of shared memory, and makes them cheaper.
DEV void *global(u64 p) { return (void *)(__attribute__((address_space(1))) void *)p; }

// rcp and rsqrt are 1 / v and 1 / sqrt(v) to 1 ulp or 2; subnormal numbers count as 0.
DEV f32 rcp(f32 v) { f32 r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v)); return r; }
DEV f32 rsqrt(f32 v) { f32 r; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v)); return r; }

DEV u4 ld16(const void *p) { return *(const u4 *)p; }
DEV void st16(void *p, u4 v) { *(u4 *)p = v; }

DEV u32 shared_address(const void *p)
{
	u32 r;
	asm("{.reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t;}" : "=r"(r) : "l"(p));
	return r;
}

// cp16 starts to copy bytes (0 to 16) from global to shared memory, and clears the rest of the 16. Both addresses are
// aligned to 16. The copy is complete when cp_wait<N> has returned, if at most N groups were committed after it.
#if LB_ARCH >= 800
DEV void cp16(void *s, const void *g, u32 bytes)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
		:: "r"(shared_address(s)), "l"(__builtin_assume_aligned(g, 16)), "r"(bytes) : "memory");
}
DEV void cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> DEV void cp_wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
#else
DEV void cp16(void *s, const void *g, u32 bytes)
{
	if (bytes == 16) {
		st16(s, ld16(g));
		return;
	}
	for (u32 i = 0; i < 8; i++)
		((u16 *)s)[i] = i < bytes / 2 ? ((const u16 *)g)[i] : 0;
}
DEV void cp_commit() {}
template <int N> DEV void cp_wait() {}
#endif

// ldm4 loads four 8x8 matrices of 16-bit numbers. Each lane gives the address of one row of 16 bytes. ldm4t transposes them.
#define LB_LDM4(name, kind) DEV void name(u32 *r, const void *p) { \
	asm volatile("ldmatrix.sync.aligned.m8n8.x4" kind ".shared.b16 {%0,%1,%2,%3}, [%4];" \
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory"); }
#define LB_LDM2(name, kind) DEV void name(u32 *r, const void *p) { \
	asm volatile("ldmatrix.sync.aligned.m8n8.x2" kind ".shared.b16 {%0,%1}, [%2];" \
		: "=r"(r[0]), "=r"(r[1]) : "r"(shared_address(p)) : "memory"); }
LB_LDM4(ldm4, "")
LB_LDM4(ldm4t, ".trans")
LB_LDM2(ldm2, "")
LB_LDM2(ldm2t, ".trans")

// mma16 adds a (16, 16) times b (16, 8) to d (16, 8). mma8 has half of the depth: a (16, 8) times b (8, 8).
#define LB_MMA16(type) \
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, " \
		"{%8,%9}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define LB_MMA8(type) \
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, " \
		"{%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
		: "r"(a[0]), "r"(a[1]), "r"(b[0]))
template <class T> LB_DEVICE void mma8(f32 *d, const u32 *a, const u32 *b);
template <class T> LB_DEVICE void mma16(f32 *d, const u32 *a, const u32 *b);
template <> LB_ALWAYS void mma8<f16>(f32 *d, const u32 *a, const u32 *b)
{
	LB_MMA8("f16");
}
#if LB_ARCH >= 800
template <> LB_ALWAYS void mma8<bf16>(f32 *d, const u32 *a, const u32 *b)
{
	LB_MMA8("bf16");
}
template <> LB_ALWAYS void mma16<bf16>(f32 *d, const u32 *a, const u32 *b)
{
	LB_MMA16("bf16");
}
template <> LB_ALWAYS void mma16<f16>(f32 *d, const u32 *a, const u32 *b)
{
	LB_MMA16("f16");
}
#else
template <> LB_ALWAYS void mma16<f16>(f32 *d, const u32 *a, const u32 *b)
{
	mma8<f16>(d, a, b);
	mma8<f16>(d, a + 2, b + 1);
}
#endif

DEV u16 narrow_f16(f32 v) { u16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v)); return r; }
DEV f32 widen_f16(u16 v) { f32 r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v)); return r; }
#if LB_ARCH >= 800
DEV u32 narrow2_bf16(f32 lo, f32 hi)
{
	u32 r;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
	return r;
}
#define LB_NARROW2_BF16
#endif

// Sums and products of two pairs, each rounded once. Computing in fp32 and rounding gives the same.
#define LB_PAIRS(name, instruction) DEV u32 name(u32 a, u32 b) \
	{ u32 r; asm(instruction : "=r"(r) : "r"(a), "r"(b)); return r; }
LB_PAIRS(add2_f16, "add.rn.f16x2 %0, %1, %2;")
LB_PAIRS(mul2_f16, "mul.rn.f16x2 %0, %1, %2;")
#define LB_PAIRS_F16
#if LB_ARCH >= 900
LB_PAIRS(add2_bf16, "add.rn.bf16x2 %0, %1, %2;")
LB_PAIRS(mul2_bf16, "mul.rn.bf16x2 %0, %1, %2;")
#define LB_PAIRS_BF16
#elif LB_ARCH >= 800 // by multiplication with 1, and addition of -0
LB_PAIRS(add2_bf16, "{.reg .b32 c; mov.b32 c, 0x3f803f80; fma.rn.bf16x2 %0, %1, c, %2;}")
LB_PAIRS(mul2_bf16, "{.reg .b32 c; mov.b32 c, 0x80008000; fma.rn.bf16x2 %0, %1, %2, c;}")
#define LB_PAIRS_BF16
#endif
#endif // LB_EMU

// LB_TENSOR_BF16: this target multiplies bf16 matrices.
#define LB_TENSOR_BF16 (LB_ARCH >= 800)

DEV u32 bits_of(f32 v) { return __builtin_bit_cast(u32, v); }
DEV f32 float_of(u32 v) { return __builtin_bit_cast(f32, v); }
DEV i32 min(i32 a, i32 b) { return a < b ? a : b; }
DEV i32 max(i32 a, i32 b) { return a > b ? a : b; }
DEV f32 max(f32 a, f32 b) { return a > b ? a : b; }
DEV f32 min(f32 a, f32 b) { return a < b ? a : b; }
