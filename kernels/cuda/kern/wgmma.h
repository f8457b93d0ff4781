// Products of a warpgroup (four warps, the first of which has a multiple of four as number) on the tensor cores of sm_90a. A
// product runs beside the threads: it reads shared memory by itself, and its sums are valid after a wait. Include this first.
//
// Sources of the facts below. ISA: PTX ISA 9.0, 9.7.15 "Asynchronous Warpgroup Level Matrix Multiply-Accumulate". CUTE: NVIDIA
// cutlass, include/cute/arch/mma_sm90_desc.hpp and include/cute/atom/mma_traits_sm90_gmma.hpp. Others that agree: Triton
// (third_party/nvidia, WGMMA.cpp), DeepGEMM (mma_utils.cuh), Modular (WGMMADescriptor). For PLAIN in both majors: ThunderKittens of 2024
// (wgmma_descriptor of st_layout::interleave), whose attention multiplied weights and values so on an H100.
#pragma once
#ifdef LB_DEVICE
#error "include wgmma.h first: it says how shared memory is aligned"
#endif
#define LB_SHARED_ALIGN 1024
#include "lb.h"

// LB_WGMMA: this target has such products.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || (defined(LB_EMU) && LB_ARCH >= 900)
#define LB_WGMMA 1
#else
#define LB_WGMMA 0
#endif

// How the chunks of 16 bytes of a matrix in shared memory are exchanged (ISA "Matrix Descriptor Format", CUTE LayoutType). A
// swizzle of W bytes is for rows of W bytes; blocks of eight rows begin at multiples of 8 W.
enum swizzle { PLAIN = 0, SWIZZLE_128 = 1, SWIZZLE_64 = 2, SWIZZLE_32 = 3 };

// swizzled is where the byte that would lie at offset lies, offsets counted from a multiple of 1024: the address's bits 4 to 6
// (5, 4) are exclusive-ored with those three places above (CUTE Swizzle<3,4,3>, <2,4,3>, <1,4,3>; ISA "Canonical Layouts").
constexpr LB_DEVICE u32 swizzled(u32 offset, swizzle s)
{
	return s == PLAIN ? offset : offset ^ (offset >> 3 & (s == SWIZZLE_128 ? 0x70 : s == SWIZZLE_64 ? 0x30 : 0x10));
}

#if LB_WGMMA
#if defined(LB_EMU)
#include "emu/wgmma.h"
#define REGISTERS_LESS(n)
#define REGISTERS_MORE(n)
#else

// A block starts with the registers per thread that ptxas has chosen. All threads of a warpgroup together can release some,
// and another warpgroup can then acquire more (ISA "setmaxnreg"). Numbers are multiples of 8.
#define REGISTERS_LESS(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(n))
#define REGISTERS_MORE(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(n))

// PROXY makes this thread's writes to shared memory visible to the products. ARRIVE orders registers before them. COMMIT ends
// a batch of products. WAIT returns when at most `groups` batches are unfinished. A test can leave out number n, as with BAR(n).
#define PROXY(n) asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define ARRIVE(n) asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT(n) asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n, groups) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(groups) : "memory")

// settle tells the compiler that these numbers change here. Otherwise it would assume that a product's sums are valid at once.
template <int N> LB_ALWAYS void settle(f32 (&d)[N])
{
	UNROLL
	for (int i = 0; i < N; i++)
		asm volatile("" : "+f"(d[i]) :: "memory");
}
template <int N> LB_ALWAYS void settle(u32 (&a)[N])
{
	UNROLL
	for (int i = 0; i < N; i++)
		asm volatile("" : "+r"(a[i]) :: "memory");
}

// The registers of sums: their places in the text of the instruction, and their operands for the compiler.
#define LB_AT4 "%0, %1, %2, %3"
#define LB_AT8 LB_AT4 ", %4, %5, %6, %7"
#define LB_AT16 LB_AT8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define LB_AT32 LB_AT16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LB_AT36 LB_AT32 ", %32, %33, %34, %35"
#define LB_AT40 LB_AT36 ", %36, %37, %38, %39"
#define LB_AT48 LB_AT40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define LB_AT64 LB_AT48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LB_AT96 LB_AT64 \
	", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, " \
	"%81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define LB_AT128 LB_AT96 \
	", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, " \
	"%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, " \
	"%125, %126, %127"
#define LB_SUM4(o) "+f"(d[o]), "+f"(d[o + 1]), "+f"(d[o + 2]), "+f"(d[o + 3])
#define LB_SUM8(o) LB_SUM4(o), LB_SUM4(o + 4)
#define LB_SUM16(o) LB_SUM8(o), LB_SUM8(o + 8)
#define LB_SUM32(o) LB_SUM16(o), LB_SUM16(o + 16)

// LB_PRODUCTS defines the products with n columns. ISA "wgmma.mma_async": d, a (descriptor or four registers), descriptor of b,
// whether d is added, the signs of a and b, whether a (in shared memory) and b are transposed, that is, not K-major.
#define LB_PRODUCT(type, name, n, at, ...) \
	template <bool B_MN> struct product_of<type, n, B_MN> { \
		DEV void run(f32 (&d)[n / 2], u64 a, u64 b, int keep) \
		{ \
			asm volatile("{.reg .pred keep; setp.ne.b32 keep, %[keep], 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." \
				name "." name " {" at "}, %[a], %[b], keep, 1, 1, 0, %[mn];}" : __VA_ARGS__ \
				: [a] "l"(a), [b] "l"(b), [keep] "r"(keep), [mn] "n"((int)B_MN) : "memory"); \
		} \
		DEV void run(f32 (&d)[n / 2], const u32 (&a)[4], u64 b, int keep) \
		{ \
			asm volatile("{.reg .pred keep; setp.ne.b32 keep, %[keep], 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." \
				name "." name " {" at "}, {%[a0], %[a1], %[a2], %[a3]}, %[b], keep, 1, 1, %[mn];}" : __VA_ARGS__ \
				: [a0] "r"(a[0]), [a1] "r"(a[1]), [a2] "r"(a[2]), [a3] "r"(a[3]), [b] "l"(b), [keep] "r"(keep), \
				[mn] "n"((int)B_MN) : "memory"); \
		} \
	};
#define LB_PRODUCTS(n, at, ...) LB_PRODUCT(bf16, "bf16", n, at, __VA_ARGS__) LB_PRODUCT(f16, "f16", n, at, __VA_ARGS__)
template <class T, int N, bool B_MN> struct product_of;
LB_PRODUCTS(8, LB_AT4, LB_SUM4(0))
LB_PRODUCTS(16, LB_AT8, LB_SUM8(0))
LB_PRODUCTS(32, LB_AT16, LB_SUM16(0))
LB_PRODUCTS(64, LB_AT32, LB_SUM32(0))
LB_PRODUCTS(72, LB_AT36, LB_SUM32(0), LB_SUM4(32))
LB_PRODUCTS(80, LB_AT40, LB_SUM32(0), LB_SUM8(32))
LB_PRODUCTS(96, LB_AT48, LB_SUM32(0), LB_SUM16(32))
LB_PRODUCTS(128, LB_AT64, LB_SUM32(0), LB_SUM32(32))
LB_PRODUCTS(192, LB_AT96, LB_SUM32(0), LB_SUM32(32), LB_SUM32(64))
LB_PRODUCTS(256, LB_AT128, LB_SUM32(0), LB_SUM32(32), LB_SUM32(64), LB_SUM32(96))

template <class T, int N, bool B_MN> LB_ALWAYS void wgmma(f32 (&d)[N / 2], u64 a, u64 b, int keep)
{
	product_of<T, N, B_MN>::run(d, a, b, keep);
}
template <class T, int N, bool B_MN> LB_ALWAYS void wgmma(f32 (&d)[N / 2], const u32 (&a)[4], u64 b, int keep)
{
	product_of<T, N, B_MN>::run(d, a, b, keep);
}
#endif // LB_EMU

// matrix_at describes a matrix in shared memory (ISA "Matrix Descriptor Format"; CUTE GmmaDescriptor). lead and stride are
// distances in bytes. Where its rows are those of the terms (K-major), chunk c of row n lies, before the swizzle of W bytes, at
//   n / 8 * stride + n % 8 * W + c * 16                 and lead is not used;    PLAIN: n / 8 * stride + n % 8 * 16 + c * lead
// where rows are terms k and columns lie side by side (MN-major, ISA "Strides", CUTE make_gmma_desc<Major::MN>), column n at
//   n / (W/2) * lead + k / 8 * stride + k % 8 * W + n % (W/2) * 2;               PLAIN: n / 8 * stride + k / 8 * lead + k % 8 * 16 + ...
DEV u64 matrix_at(const void *p, swizzle s, u32 lead, u32 stride)
{
	return (u64)((shared_address(p) & 0x3ffff) >> 4) | (u64)(lead >> 4) << 16 | (u64)(stride >> 4) << 32 | (u64)s << 62;
}

// matrix_on is the same matrix some bytes further on: within the rows of a swizzle too, for the swizzle is one of addresses (CUTE
// DescriptorIterator, DeepGEMM advance the same way).
DEV u64 matrix_on(u64 m, u32 bytes) { return m + (bytes >> 4); }
#endif // LB_WGMMA
