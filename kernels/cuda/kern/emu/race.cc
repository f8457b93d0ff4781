#include "race.h"
#include <algorithm>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

namespace emu {

bool Races::on;

void Races::launch(Range stacks, Range engine)
{
	stacks_ = stacks;
	engine_ = engine;
	launch_ = ++stamp_;
	block_ = 0;
	if (pages_.size() > 1024) // most pages are those of earlier tests
		pages_.clear();
	last_key_ = ~0ull;
}

void Races::block(u32 threads, Range shared)
{
	if (seen_.empty())
		seen_.resize((size_t)most * most);
	threads_ = threads;
	shared_ = shared;
	stamp_++;
	block_++;
	std::fill(marks_, marks_ + most, 0);
	turn_ = 0;
	std::fill(clock_, clock_ + threads, 1);
	std::fill(base_, base_ + threads, 0);
	for (u32 i = 0; i < threads; i++)
		std::fill_n(&seen_[(size_t)i * most], threads, 0);
	for (u32 i = 0; i < barriers; i++)
		clear(i);
}

bool Races::before(const Access &a, u32 thread) const
{
	return a.thread == thread || a.clock <= base_[a.thread] || a.clock <= seen_[(size_t)thread * most + a.thread];
}

const char *Races::clash(const Access &a, bool wrote, const Access &now, bool write, const u8 *p) const
{
	static char text[400];
	auto name = [](const void *where, char (&out)[120]) {
		Dl_info info = {};
		dladdr(where, &info);
		snprintf(out, sizeof out, "%s+%#llx", info.dli_fname ? info.dli_fname : "?",
			(unsigned long long)((const u8 *)where - (const u8 *)info.dli_fbase - 1));
	};
	char first[120], second[120];
	name(a.where, first);
	name(now.where, second);
	bool shared = p >= shared_.first && p < shared_.end;
	snprintf(text, sizeof text, "a race: thread %u%s %s and thread %u %s byte %lld of %s memory with nothing between them\n"
		"  (addr2line -i -e %s, %s)", a.thread, a.block == now.block ? "" : " of another block", wrote ? "writes" : "reads",
		now.thread, write ? "writes" : "reads", shared ? (long long)(p - shared_.first) : (long long)(u64)p,
		shared ? "shared" : "global", first, second);
	return text;
}

const char *Races::check(Cell &c, const Access &now, bool write)
{
	auto conflicts = [&](const Access &a) { return a.block != now.block || !before(a, now.thread); };
	if (c.written && conflicts(c.write))
		return clash(c.write, true, now, write, at_);
	if (write) {
		if (c.others)
			return clash(c.other, false, now, write, at_);
		for (const Access &r : c.reads)
			if (conflicts(r))
				return clash(r, false, now, write, at_);
		c.reads.clear();
		c.written = true;
		c.write = now;
		return nullptr;
	}
	if (!c.reads.empty() && c.reads[0].block != now.block) {
		c.others = true;
		c.other = c.reads[0];
		c.reads.clear();
	}
	if (!c.reads.empty() && c.reads.back().thread == now.thread) { // the usual case
		c.reads.back() = now;
		return nullptr;
	}
	if (c.reads.size() == c.reads.capacity())
		forget(c.reads, now.thread);
	c.reads.push_back(now);
	return nullptr;
}

// forget removes the reads that happened before the thread's present access, and all but the last read of each other thread.
void Races::forget(std::vector<Access> &reads, u32 thread)
{
	turn_++;
	size_t kept = reads.size();
	for (size_t i = reads.size(); i-- > 0;) {
		if (marks_[reads[i].thread] == turn_ || before(reads[i], thread))
			continue;
		marks_[reads[i].thread] = turn_;
		reads[--kept] = reads[i];
	}
	reads.erase(reads.begin(), reads.begin() + (std::ptrdiff_t)kept);
	if (reads.size() > reads.capacity() / 2)
		reads.reserve(reads.capacity() * 2);
}

// line_of returns the record of the line that begins at an address.
Races::Line &Races::line_of(u64 at, u64 stamp)
{
	if (u64 key = at / page; key != last_key_) {
		last_ = &pages_[key];
		last_key_ = key;
	}
	Line &l = last_->lines[at % page / line];
	if (l.stamp != stamp) {
		l.stamp = stamp;
		l.split = false;
		l.whole.written = l.whole.others = false;
		l.whole.reads.clear();
	}
	return l;
}

const char *Races::touch(u32 thread, const void *p, size_t bytes, bool write, const void *where)
{
	const u8 *first = (const u8 *)p;
	auto in = [&](const Range &r) { return first >= r.first && first < r.end; };
	if (in(stacks_) || in(engine_))
		return nullptr;
	u64 stamp = in(shared_) ? stamp_ : launch_, at = (u64)first / unit * unit, end = (u64)first + bytes;
	Access now = {block_, thread, clock_[thread], where};
	while (at < end) {
		Line &l = line_of(at / line * line, stamp);
		at_ = (const u8 *)at;
		bool whole = at % line == 0 && at + line <= end;
		if (!whole && !l.split) {
			l.cells.assign(line / unit, l.whole);
			l.split = true;
		}
		u32 step = l.split ? unit : line;
		if (const char *wrong = check(l.split ? l.cells[at % line / unit] : l.whole, now, write))
			return wrong;
		at += step;
	}
	return nullptr;
}

void Races::all()
{
	for (u32 i = 0; i < threads_; i++)
		base_[i] = clock_[i]++;
}

void Races::warp(u32 first)
{
	u32 sum[most];
	std::copy_n(&seen_[(size_t)first * most], threads_, sum);
	for (u32 i = first + 1; i < first + 32; i++)
		for (u32 j = 0; j < threads_; j++)
			sum[j] = std::max(sum[j], seen_[(size_t)i * most + j]);
	for (u32 i = first; i < first + 32; i++)
		sum[i] = clock_[i]++;
	for (u32 i = first; i < first + 32; i++)
		std::copy_n(sum, threads_, &seen_[(size_t)i * most]);
}

void Races::arrive(u32 barrier, u32 thread)
{
	u32 *sum = gathered_[barrier];
	for (u32 j = 0; j < threads_; j++)
		sum[j] = std::max(sum[j], seen_[(size_t)thread * most + j]);
	sum[thread] = clock_[thread]++;
}

void Races::leave(u32 barrier, u32 thread)
{
	u32 *seen = &seen_[(size_t)thread * most];
	for (u32 j = 0; j < threads_; j++)
		seen[j] = std::max(seen[j], gathered_[barrier][j]);
}

void Races::clear(u32 barrier) { std::fill_n(gathered_[barrier], most, 0); }

} // namespace emu
