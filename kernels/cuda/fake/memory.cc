// Device memory and page-locked memory.
#include "fake.h"
#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace fake {

static std::mutex mu;
static std::map<uint64_t, size_t> locked; // page-locked memory by address

const size_t page = 4096, align = 256;

static size_t mapped(size_t bytes) { return (bytes + page - 1) / page * page + page; }

// take returns memory that ends at a guard page. The end may be up to align - 1 bytes before this page, because memory begins
// at a multiple of align.
void *take(size_t bytes)
{
	size_t all = mapped(bytes);
	char *p = (char *)mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return nullptr;
	mprotect(p + all - page, page, PROT_NONE);
	return p + all - page - (bytes + align - 1) / align * align;
}

void give(void *p, size_t bytes)
{
	char *start = (char *)((uint64_t)p / page * page);
	munmap(start, mapped(bytes));
}

static bool within(const std::map<uint64_t, size_t> &m, uint64_t p, size_t bytes)
{
	auto it = m.upper_bound(p);
	return it != m.begin() && (--it, p + bytes <= it->first + it->second);
}

bool inside(Device *d, uint64_t p, size_t bytes)
{
	std::lock_guard<std::recursive_mutex> guard(d->lock);
	return within(d->memory, p, bytes);
}

void reset_memory(Device *d)
{
	for (auto &[p, bytes] : d->memory)
		give((void *)p, bytes);
	d->memory.clear();
	d->used = 0;
}

} // namespace fake

using namespace fake;

API cuMemGetInfo_v2(size_t *free, size_t *total)
{
	CALL(cuMemGetInfo_v2);
	*total = (size_t)setting("FAKE_MEMORY", 4ll << 30);
	*free = *total - current()->used;
	return SUCCESS;
}

API cuMemAlloc_v2(uint64_t *p, size_t bytes)
{
	CALL(cuMemAlloc_v2);
	Device *d = current();
	std::lock_guard<std::recursive_mutex> guard(d->lock);
	if (!bytes)
		return INVALID_VALUE;
	if (d->used + bytes > (size_t)setting("FAKE_MEMORY", 4ll << 30))
		return OUT_OF_MEMORY;
	void *mem = take(bytes);
	if (!mem)
		return OUT_OF_MEMORY;
	if (bytes <= 64 << 20 && !idle()) // NaN in every type; larger memory stays zero, to save time
		memset(mem, 0xff, bytes);
	*p = (uint64_t)mem;
	d->memory[*p] = bytes;
	d->used += bytes;
	return SUCCESS;
}

API cuMemFree_v2(uint64_t p)
{
	CALL(cuMemFree_v2);
	Device *d = current();
	std::lock_guard<std::recursive_mutex> guard(d->lock);
	auto it = d->memory.find(p);
	if (it == d->memory.end())
		return INVALID_VALUE;
	if (int rc = run_all(d)) // like the driver, this call waits for the device
		return rc;
	give((void *)p, it->second);
	d->used -= it->second;
	d->memory.erase(it);
	return SUCCESS;
}

API cuMemHostAlloc(void **p, size_t bytes, unsigned)
{
	CALL(cuMemHostAlloc);
	if (!(*p = take(bytes)))
		return OUT_OF_MEMORY;
	std::lock_guard<std::mutex> guard(mu);
	locked[(uint64_t)*p] = bytes;
	return SUCCESS;
}

API cuMemFreeHost(void *p)
{
	CALL(cuMemFreeHost);
	std::lock_guard<std::mutex> guard(mu);
	auto it = locked.find((uint64_t)p);
	if (it == locked.end())
		return INVALID_VALUE;
	give(p, it->second);
	locked.erase(it);
	return SUCCESS;
}

// add appends a copy to a stream.
static int add(Stream *s, std::function<int()> work)
{
	Device *d = current();
	std::lock_guard<std::recursive_mutex> guard(d->lock);
	if (!d->streams.count(s))
		return INVALID_HANDLE;
	s->work.push_back(std::move(work));
	return SUCCESS;
}

// Host memory is read when the stream executes the copy, even if it is not page-locked. The real driver may read it earlier.
API cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, Stream *s)
{
	WORK(cuMemcpyHtoDAsync_v2, SUCCESS);
	if (!inside(current(), to, bytes))
		return INVALID_VALUE;
	return add(s, [=] { return memcpy((void *)to, from, bytes), SUCCESS; });
}

API cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, Stream *s)
{
	CALL(cuMemcpyDtoHAsync_v2);
	if (idle()) // the results of an idle device are zeros, for small copies
		return memset(to, 0, std::min<size_t>(bytes, 64 << 10)), SUCCESS;
	if (!inside(current(), from, bytes))
		return INVALID_VALUE;
	return add(s, [=] { return memcpy(to, (void *)from, bytes), SUCCESS; });
}
