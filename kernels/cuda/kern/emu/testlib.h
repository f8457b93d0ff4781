// Shared by the tests of kernels: guarded memory, random numbers, comparison with float64.
#pragma once
#include "../kernels.h"
#include "launch.h"
#include <stdint.h>
#include <string>
#include <vector>

// Buffer is device memory: n elements of a type, all NaN. Memory outside of it must not be accessed: its end or, if `front`
// is set, its beginning is at a page that is not mapped.
class Buffer {
public:
	Buffer(int dtype, size_t n, bool front = false);
	~Buffer();
	Buffer(const Buffer &) = delete;
	void set(size_t i, double v); // rounded to the type
	double get(size_t i) const;
	uint32_t bits(size_t i) const;
	lb_u64 at(size_t i) const { return (lb_u64)(data_ + i * size_); }
	int dtype() const { return dtype_; }
	size_t size() const { return n_; }

private:
	int dtype_, size_;
	size_t n_, mapped_;
	unsigned char *data_, *map_;
};

// Random numbers in [-1, 1), rounded to a type; a generator for each test, so that tests do not depend on others.
struct Random {
	uint64_t state;
	explicit Random(uint64_t seed) : state(seed * 2654435761u + 88172645463325252u) {}
	double next(int dtype = LB_F32);
	int below(int n) { return (int)(((next() + 1) / 2) * n); }
	bool maybe(int one_of) { return below(one_of) == 0; }
	// length returns a length from 1 to most, often near the size of a tile or of a vector, sometimes a prime.
	int length(int most);
};

// by_chance calls f LB_EMU_FUZZ times (by default a few times), each time with another random generator. LB_EMU_SEED is the
// first seed. A failure inside f prints its seed.
template <class F> void by_chance(F f)
{
	extern int chances();
	extern Random chance(int i);
	for (int i = 0; i < chances(); i++) {
		Random r = chance(i);
		f(r);
	}
	chance(-1);
}

double round_to(int dtype, double v);

// tolerance returns the error that kerneltest allows for a storage type: relative for numbers above 1, else absolute.
double tolerance(int dtype);

// launch runs a kernel as its plan says. It ends the test where there is no such kernel.
void launch(const char *kernel, const void *args);

// fail records a failure and returns; verify compares a number with the right one.
void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool verify(const std::string &what, int dtype, double scale, double got, double want);

// finish prints the outcome of a test program and returns its exit status.
int finish(const char *name);
