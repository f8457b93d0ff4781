// Work that runs beside the threads of a block: products of warpgroups, and their view of shared memory.
#pragma once
#include "../lb.h"
#include "wgmma.h"
#include <vector>

namespace emu {

// Where shared memory begins, as its addresses count.
constexpr u32 shared_base = 1024;

// product_reads records that a product of a warp reads these bytes of shared memory.
void product_reads(u32 warp, const void *p, size_t bytes);

// An Async does the work of each warp separately, so that a warp may be ahead of the other three as far as the program
// allows. It reads the operands when a product is issued, and again after the wait for it: both must be equal. It reads a
// copy of the memory from the last proxy fence, and this copy must equal the memory.
class Async {
public:
	// begin: a block of so many warps starts, with that shared memory.
	void begin(u8 *shared, size_t bytes, u32 warps);
	// step executes an operation of a warp. It returns a text that says what is wrong, or null.
	const char *step(Op op, u32 warp, Lane *lanes);
	// busy reports whether products of a warp are under way.
	bool busy(u32 warp) const;

private:
	struct Product {
		Multiply of[32]; // as each lane has it
		u16 a[16][16];
		std::vector<u16> b; // n x 16
		std::vector<f32> sums; // of lane l from l n / 2 on
	};
	struct Warp {
		bool arrived = false;
		u32 issued = 0;
		std::vector<Product> products; // under way, oldest first
		std::vector<u32> batches;      // how many of them each committed batch has; the last one is open
	};
	struct Issue { u64 a, b; int n; bool bf16, b_mn, keep; };

	const char *issue(u32 warp, Lane *lanes);
	const char *complete(Warp &w, u32 warp, u32 products);
	const char *read(const Multiply *of, u32 warp, bool fresh, u16 (*a)[16], std::vector<u16> *b) const;
	const char *chunk(u64 matrix, bool mn_major, u32 mn, u32 k, u32 warp, bool fresh, u16 *to) const;

	u8 *memory_ = nullptr;
	size_t bytes_ = 0;
	std::vector<u8> view_; // empty until somebody needs it: then all NaN, as the memory is
	std::vector<Warp> warps_;
	std::vector<std::vector<Issue>> issues_; // of each warpgroup, to see that its warps agree
};

} // namespace emu
