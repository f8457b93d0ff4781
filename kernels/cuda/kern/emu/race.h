// Finds data races that no order of threads shows. If the units were compiled with -fsanitize=thread (make races), each of
// their loads and stores is recorded here, and so are the copies and the matrices that the engine reads. If two threads of
// a launch access the same bytes, and one of them writes, there must be a barrier between the accesses that orders them,
// directly or through other threads. For lanes of a warp this is warp_bar, because neither shuffles nor products order
// memory (PTX ISA, "Memory Consistency Model"). Nothing orders threads of two blocks.
#pragma once
#include "../lb.h"
#include <stddef.h>
#include <unordered_map>
#include <vector>

namespace emu {

class Races {
public:
	// on: the units were compiled for this check.
	static bool on;

	// launch: another launch begins. block: another block of it, of so many threads, with that shared memory. What
	// lies in `stacks` and in `engine` is nobody else's.
	struct Range { const u8 *first, *end; };
	void launch(Range stacks, Range engine);
	void block(u32 threads, Range shared);

	// touch records an access. It returns a text that describes a race, or null.
	const char *touch(u32 thread, const void *p, size_t bytes, bool write, const void *where);

	// all: every thread of the block has come to a barrier. warp: those from first on.
	void all();
	void warp(u32 first);
	// arrive: a thread comes to a barrier of some; leave: it goes on, after all of them came. clear: nobody waits there.
	void arrive(u32 barrier, u32 thread);
	void leave(u32 barrier, u32 thread);
	void clear(u32 barrier);

private:
	static constexpr u32 most = 1024, barriers = 16;
	static constexpr u32 unit = 2, line = 16, page = 4096; // bytes of a cell, of cells that are mostly alike, of lines together
	struct Access { u32 block, thread, clock; const void *where; };
	struct Cell {
		bool written = false, others = false;
		Access write, other; // other: of a block before that has read
		std::vector<Access> reads; // of one block
	};
	struct Line {
		u64 stamp = 0; // what is noted is of this launch or, in shared memory, block
		bool split = false;
		Cell whole;              // where it is not split
		std::vector<Cell> cells; // where it is
	};
	struct Page { Line lines[page / line]; };

	bool before(const Access &a, u32 thread) const; // whether a happened before what the thread does now
	Line &line_of(u64 at, u64 stamp);
	const char *check(Cell &c, const Access &now, bool write);
	void forget(std::vector<Access> &reads, u32 thread);
	const char *clash(const Access &a, bool wrote, const Access &now, bool write, const u8 *p) const;

	Range stacks_ = {}, engine_ = {}, shared_ = {};
	u64 stamp_ = 0, launch_ = 0;
	u32 threads_ = 0, block_ = 0;
	std::unordered_map<u64, Page> pages_;
	u64 last_key_ = ~0ull;
	Page *last_ = nullptr;
	const u8 *at_ = nullptr;
	u32 turn_ = 0, marks_[most]; // of forget
	u32 clock_[most], base_[most];    // of each thread now, and at the last barrier of all
	std::vector<u32> seen_;           // most x most: the last of another's clock that a thread knows of
	u32 gathered_[barriers][most];    // what those know who came to a barrier
};

// touched is an access of the thread at work.
void touched(const void *p, size_t bytes, bool write, const void *where);

} // namespace emu
