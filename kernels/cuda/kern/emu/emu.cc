// The engine of the emulation: fibers, their order, barriers and delayed copies.
#include "../lb.h"
#include "async.h"
#include "collective.h"
#include "fiber.h"
#include "launch.h"
#include "race.h"
#include "sanitize.h"
#include <algorithm>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <vector>

namespace emu {
namespace {

constexpr u32 max_threads = 1024, max_warps = max_threads / 32;
constexpr size_t page = 4096, shared_most = 256 << 10;
#ifndef LB_STACK
#define LB_STACK 96 // KiB of a fiber; sanitizers want more
#endif
constexpr size_t stack_size = LB_STACK << 10;

enum State : u8 { READY, AT_WARP, AT_BARRIER, ENDED };

constexpr u32 barriers = 16; // of a block; 0 is that of all threads

struct Copy { void *to; const void *from; u32 bytes; };

// A Fiber is one thread of the block.
struct Fiber {
	void *context = nullptr;
	State state = ENDED;
	u32 barrier = 0; // at which it is
	std::vector<Copy> copies; // under way, oldest first
	std::vector<u32> groups;  // how many of them each committed group has; the last one is open
};

struct Warp {
	u32 ready = 0, live = 0, arrived = 0;
	Op op = WARP_BAR;
	int turn = 0; // alternates, because lanes may enter the next collective before all have left the last one
	Lane lanes[2][32];
};

// A Named is a barrier of some threads.
struct Named { u32 threads, arrived, joined; };

// A Block is the block under way on this OS thread, with memory that is kept between blocks.
struct Block {
	Place at = {};
	Fiber fibers[max_threads];
	Warp warps[max_warps];
	Named named[barriers];
	u32 current = 0, live = 0, arrived = 0, threads = 0;
	int order = 0;
	u8 *stacks = nullptr, *room = nullptr, *shared = nullptr;
	size_t shared_size = 0;
	void *scheduler = nullptr;
	const lb_kernel *kernel = nullptr;
	const void *args = nullptr;
	u64 conflicts = 0;
	Async async;
	Races races;

	~Block();
	void prepare(u32 shared_bytes);
	void begin();
	void next();
	void wait_at(u32 barrier);
	void touch(u32 thread, const void *p, size_t bytes, bool write, const void *where);
	bool in_shared(const void *p, size_t bytes) const
	{
		return (const u8 *)p >= shared && (const u8 *)p + bytes <= shared + shared_size;
	}
	[[noreturn]] void stuck(const char *why);
};

thread_local std::unique_ptr<Block> block;
thread_local bool running; // whether a kernel runs

// guarded maps size bytes between two pages that cannot be accessed.
u8 *guarded(size_t size)
{
	u8 *p = (u8 *)mmap(nullptr, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED || mprotect(p + page, size, PROT_READ | PROT_WRITE)) {
		perror("emulation: no memory");
		abort();
	}
	return p + page;
}

Block::~Block()
{
	if (room)
		allow(room, shared_most);
	if (stacks)
		munmap(stacks - page, max_threads * stack_size + 2 * page);
	if (room)
		munmap(room - page, shared_most + 2 * page);
}

void Block::prepare(u32 shared_bytes)
{
	if (!room) {
		room = guarded(shared_most);
		stacks = guarded(max_threads * stack_size);
		for (u32 i = 0; i < max_threads; i++) // the lowest page of each stack
			mprotect(stacks + i * stack_size, page, PROT_NONE);
	}
	if (shared_bytes > shared_most)
		stuck("more shared memory than any device has");
	shared_size = shared_bytes;
	shared = room + shared_most - (shared_bytes + 127) / 128 * 128; // what lies behind is not mapped
	allow(shared, shared_bytes);
	forbid(room, (size_t)(shared - room));
	forbid(shared + shared_bytes, (size_t)(room + shared_most - shared) - shared_bytes);
	if (Races::on)
		races.launch({stacks, stacks + max_threads * stack_size}, {(const u8 *)this, (const u8 *)(this + 1)});
	const char *s = getenv("LB_EMU_ORDER");
	order = s ? atoi(s) : 0;
}

void entry()
{
	Block *b = block.get();
	b->kernel->run(b->args);
	Fiber &f = b->fibers[b->current];
	Warp &w = b->warps[b->current / 32];
	f.state = ENDED;
	if (b->async.busy(b->current / 32))
		b->stuck("a warp has ended before its products");
	w.ready &= ~(1u << b->current % 32);
	w.live &= ~(1u << b->current % 32);
	b->live--;
	b->next();
}

// begin sets up all threads of the block.
void Block::begin()
{
	memset(shared, 0xff, shared_size);
	valueless(shared, shared_size);
	async.begin(shared, shared_size, threads / 32);
	if (Races::on)
		races.block(threads, {shared, shared + shared_size});
	live = threads;
	arrived = 0;
	std::fill(named, named + barriers, Named{});
	for (u32 i = 0; i < threads; i++) {
		allow(stacks + (i + 1) * stack_size - page, page); // those who ended there have not returned
		fibers[i].context = fiber_new(stacks + i * stack_size + page, stack_size - page, entry);
		fibers[i].state = READY;
		fibers[i].copies.clear();
		fibers[i].groups.assign(1, 0);
	}
	for (u32 w = 0; w < threads / 32; w++) {
		warps[w].ready = warps[w].live = ~0u;
		warps[w].arrived = 0;
		warps[w].turn = 0;
	}
}

// pick returns the thread to run next, or -1. Order 0 is lock step: all threads in turn. Order 1 runs each warp as far as
// possible, starting with the first warp. Order 2 starts with the last warp, and with the last lane of each.
int pick(Block *b)
{
	u32 warps = b->threads / 32;
	if (b->order == 0) {
		u32 from = (b->current + 1) % b->threads, w = from / 32;
		u32 mask = b->warps[w].ready & ~0u << from % 32;
		for (u32 i = 0; i <= warps; i++) {
			if (mask)
				return w * 32 + __builtin_ctz(mask);
			w = (w + 1) % warps;
			mask = b->warps[w].ready;
		}
		return -1;
	}
	for (u32 i = 0; i < warps; i++) {
		u32 w = b->order == 1 ? i : warps - 1 - i, mask = b->warps[w].ready;
		if (mask)
			return w * 32 + (b->order == 1 ? __builtin_ctz(mask) : 31 - __builtin_clz(mask));
	}
	return -1;
}

// next switches to another thread. It returns when the calling thread is ready and is picked again.
void Block::next()
{
	void **from = &fibers[current].context;
	int to = pick(this);
	if (to < 0) {
		if (live)
			stuck("its threads wait for each other for ever");
		for (const Named &n : named)
			if (n.arrived)
				stuck("threads came to a barrier to which not all came");
		fiber_switch(from, scheduler);
		return;
	}
	if ((u32)to == current)
		return;
	current = to;
	fiber_switch(from, fibers[to].context);
}

// wait_at makes the calling thread wait until a barrier makes it ready again.
void Block::wait_at(u32 barrier)
{
	fibers[current].state = AT_BARRIER;
	fibers[current].barrier = barrier;
	warps[current / 32].ready &= ~(1u << current % 32);
	next();
}

// touch notes an access of a thread for the races.
void Block::touch(u32 thread, const void *p, size_t bytes, bool write, const void *where)
{
	if (Races::on && bytes > 0)
		if (const char *wrong = races.touch(thread, p, bytes, write, where))
			stuck(wrong);
}

void Block::stuck(const char *why)
{
	fprintf(stderr, "emulation: kernel %s, block (%u, %u, %u): %s\n", kernel->name, at.block[0], at.block[1],
		at.block[2], why);
	for (u32 w = 0; w < threads / 32; w++) {
		u32 count[4] = {};
		for (u32 i = 0; i < 32; i++)
			count[fibers[w * 32 + i].state]++;
		fprintf(stderr, "  warp %u: %u ready, %u at collective %d, %u at the barrier, %u have ended\n", w, count[READY],
			count[AT_WARP], warps[w].op, count[AT_BARRIER], count[ENDED]);
	}
	abort();
}

} // namespace

const Place &place()
{
	block->at.tid = block->current;
	return block->at;
}

u8 *shared() { return block->shared; }

u32 shared_address(const void *p)
{
	if ((u64)block->shared & 1023)
		block->stuck("shared memory of products must be a multiple of 1024 bytes, so that it begins at one");
	return (u32)((const u8 *)p - block->shared) + shared_base;
}

Lane &meet(Op op, const u32 *in, int n, const void *address)
{
	Block *b = block.get();
	u32 i = b->current % 32;
	Warp &w = b->warps[b->current / 32];
	if (w.arrived && w.op != op)
		b->stuck("lanes of a warp are at different collectives");
	w.op = op;
	Lane *lanes = w.lanes[w.turn & 1];
	if (n > 0)
		memcpy(lanes[i].in, in, n * 4);
	lanes[i].address = address;
	if (++w.arrived == 32) {
		u32 first = b->current / 32 * 32;
		if (op == WARP_BAR && Races::on)
			b->races.warp(first);
		for (u32 l = 0; op >= LDM4 && op <= LDM2T && l < (op <= LDM4T ? 32 : 16); l++) {
			if (!b->in_shared(lanes[l].address, 16))
				b->stuck("ldmatrix: a row that is not in shared memory");
			b->touch(first + l, lanes[l].address, 16, false, __builtin_return_address(0));
		}
		if (op < PROXY_FENCE)
			compute(op, lanes, &b->conflicts);
		else if (const char *wrong = b->async.step(op, b->current / 32, lanes))
			b->stuck(wrong);
		w.arrived = 0;
		w.turn++;
		w.ready = ~0u;
		for (u32 l = 0; l < 32; l++)
			b->fibers[first + l].state = READY;
		return lanes[i];
	}
	b->fibers[b->current].state = AT_WARP;
	w.ready &= ~(1u << i);
	b->next();
	return lanes[i];
}

void product_reads(u32 warp, const void *p, size_t bytes)
{
	block->touch(warp * 32, p, bytes, false, __builtin_return_address(0));
}

void touched(const void *p, size_t bytes, bool write, const void *where)
{
	if (running)
		block->touch(block->current, p, bytes, write, where);
}

void barrier()
{
	Block *b = block.get();
	if (++b->arrived == b->threads) {
		b->arrived = 0;
		if (Races::on)
			b->races.all();
		for (u32 i = 0; i < b->threads; i++)
			b->fibers[i].state = READY;
		for (u32 w = 0; w < b->threads / 32; w++)
			b->warps[w].ready = ~0u;
		return;
	}
	b->wait_at(0);
}

void barrier_of(u32 id, u32 threads, bool join)
{
	Block *b = block.get();
	if (id == 0 || id >= barriers || threads % 32 || threads > b->threads)
		b->stuck("a barrier that there is not");
	Named &n = b->named[id];
	if (n.arrived && n.threads != threads)
		b->stuck("threads disagree on how many come to a barrier");
	n.threads = threads;
	n.arrived++;
	if (Races::on)
		b->races.arrive(id, b->current);
	n.joined += join;
	if (n.arrived < threads) {
		if (join)
			b->wait_at(id);
		return;
	}
	if (!n.joined)
		b->stuck("nobody waits at a barrier to which all came");
	n = {};
	for (u32 i = 0; i < b->threads; i++) {
		bool waits = b->fibers[i].state == AT_BARRIER && b->fibers[i].barrier == id;
		if (Races::on && (waits || (join && i == b->current)))
			b->races.leave(id, i);
		if (waits) {
			b->fibers[i].state = READY;
			b->warps[i / 32].ready |= 1u << i % 32;
		}
	}
	if (Races::on)
		b->races.clear(id);
}

// copy_begin writes NaN to the target of a copy. So a thread that reads it too early gets NaN, and so does a thread that has
// not yet read the old content.
void copy_begin(void *to, const void *from, u32 bytes)
{
	Block *b = block.get();
	if ((u64)to & 15 || (u64)from & 15 || bytes > 16 || !b->in_shared(to, 16) || (bytes > 0 && b->in_shared(from, 1)))
		b->stuck("cp.async: a wrong address");
	b->touch(b->current, from, bytes, false, __builtin_return_address(0));
	b->touch(b->current, to, 16, true, __builtin_return_address(0));
	memset(to, 0xff, 16);
	valueless(to, 16);
	Fiber &f = b->fibers[b->current];
	f.copies.push_back({to, from, bytes});
	f.groups.back()++;
}

void copy_commit() { block->fibers[block->current].groups.push_back(0); }

void copy_wait(int groups)
{
	Fiber &f = block->fibers[block->current];
	int done = (int)f.groups.size() - 1 - groups;
	u32 copies = 0;
	for (int g = 0; g < done; g++)
		copies += f.groups[g];
	if (done <= 0)
		return;
	for (u32 i = 0; i < copies; i++) { // it wrote some time from its beginning until now
		block->touch(block->current, f.copies[i].to, 16, true, __builtin_return_address(0));
		memcpy(f.copies[i].to, f.copies[i].from, f.copies[i].bytes);
		memset((u8 *)f.copies[i].to + f.copies[i].bytes, 0, 16 - f.copies[i].bytes);
	}
	f.copies.erase(f.copies.begin(), f.copies.begin() + copies);
	f.groups.erase(f.groups.begin(), f.groups.begin() + done);
}

} // namespace emu

extern "C" lb_launch lb_emu_plan(const lb_kernel *k, const void *args) { return k->plan(args); }

// prepare sets up this thread's block for a launch. It returns null if no device would accept the launch.
static emu::Block *prepare(const lb_kernel *k, const void *args, const lb_launch *g)
{
	using namespace emu;
	lb_launch want = k->plan(args);
	if (memcmp(&want, g, sizeof want) || !g->threads || g->threads % 32 || g->threads > max_threads ||
	    !g->grid[0] || !g->grid[1] || !g->grid[2] || g->grid[0] > 0x7fffffff || g->grid[1] > 65535 || g->grid[2] > 65535)
		return nullptr;
	if (!block)
		block = std::make_unique<Block>();
	Block *b = block.get();
	b->kernel = k;
	b->args = args;
	b->threads = b->at.threads = g->threads;
	std::copy(g->grid, g->grid + 3, b->at.grid);
	b->prepare(g->shared);
	return b;
}

// run runs one block of the launch.
static void run(emu::Block *b, u32 x, u32 y, u32 z)
{
	using namespace emu;
	b->at.block[0] = x;
	b->at.block[1] = y;
	b->at.block[2] = z;
	b->begin();
	b->current = b->threads - 1; // so that the first to be picked in lock step is thread 0
	b->current = pick(b);
	running = true;
	fiber_switch(&b->scheduler, b->fibers[b->current].context);
	running = false;
}

extern "C" int lb_emu_launch(const lb_kernel *k, const void *args, const lb_launch *g)
{
	emu::Block *b = prepare(k, args, g);
	if (!b)
		return 1;
	for (u32 z = 0; z < g->grid[2]; z++)
		for (u32 y = 0; y < g->grid[1]; y++)
			for (u32 x = 0; x < g->grid[0]; x++)
				run(b, x, y, z);
	return 0;
}

extern "C" int lb_emu_launch_block(const lb_kernel *k, const void *args, const lb_launch *g, unsigned x, unsigned y)
{
	emu::Block *b = prepare(k, args, g);
	if (!b || x >= g->grid[0] || y >= g->grid[1])
		return 1;
	run(b, x, y, 0);
	return 0;
}

extern "C" unsigned long long lb_emu_conflicts(void) { return emu::block ? emu::block->conflicts : 0; }
