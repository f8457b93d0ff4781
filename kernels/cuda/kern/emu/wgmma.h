// The products of a warpgroup in the emulation: see async.h for what it watches.
#pragma once

#define PROXY(n) LB_STEP(n, emu::meet(emu::PROXY_FENCE, 0, 0, 0))
#define ARRIVE(n) LB_STEP(n, emu::meet(emu::WG_ARRIVE, 0, 0, 0))
#define COMMIT(n) LB_STEP(n, emu::meet(emu::WG_COMMIT, 0, 0, 0))
#define WAIT(n, groups) LB_STEP(n, emu::wait(groups))

namespace emu {

// Multiply is what one thread says of a product: its sums, its part of a where that is in registers, the descriptors.
struct Multiply {
	f32 *d;
	const u32 *a; // four registers, or null: a is in shared memory
	u64 am, bm;
	int n;
	bool bf16, b_mn, keep;
};

inline void wait(u32 groups) { meet(WG_WAIT, &groups, 1, 0); }

template <class T> struct is_bf16 { static constexpr bool value = false; };
template <> struct is_bf16<bf16> { static constexpr bool value = true; };

} // namespace emu

template <int N> DEV void settle(f32 (&)[N]) {}
template <int N> DEV void settle(u32 (&)[N]) {}

DEV u32 shared_address(const void *p) { return emu::shared_address(p); }

template <class T, int N, bool B_MN> void wgmma(f32 (&d)[N / 2], u64 a, u64 b, int keep)
{
	emu::Multiply m = {d, nullptr, a, b, N, emu::is_bf16<T>::value, B_MN, keep != 0};
	emu::meet(emu::WG_MULTIPLY, 0, 0, &m);
}
template <class T, int N, bool B_MN> void wgmma(f32 (&d)[N / 2], const u32 (&a)[4], u64 b, int keep)
{
	emu::Multiply m = {d, a, 0, b, N, emu::is_bf16<T>::value, B_MN, keep != 0};
	emu::meet(emu::WG_MULTIPLY, 0, 0, &m);
}
