// Counts how often each call was made. FAKE_COUNTS names a file, which is mapped. It has a slot of 64 bytes for each call:
// its name and, at byte 56, the number.
#include "fake.h"
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace fake {

namespace {

struct Slot {
	char name[56];
	std::atomic<uint64_t> count;
};

enum { SLOTS = 64 };

Slot *slots()
{
	const size_t bytes = SLOTS * sizeof(Slot);
	const char *path = getenv("FAKE_COUNTS");
	int fd = path && *path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
	bool file = fd >= 0 && ftruncate(fd, bytes) == 0;
	void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, file ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, file ? fd : -1, 0);
	if (fd >= 0)
		close(fd);
	if (p == MAP_FAILED)
		abort();
	return (Slot *)p;
}

} // namespace

std::atomic<uint64_t> *counter(const char *call)
{
	static std::mutex mu;
	static Slot *all = slots();
	std::lock_guard<std::mutex> guard(mu);
	for (Slot *s = all; s < all + SLOTS; s++) {
		if (!s->name[0])
			strncpy(s->name, call, sizeof s->name - 1);
		if (!strcmp(s->name, call))
			return &s->count;
	}
	abort(); // more calls than slots
}

} // namespace fake
