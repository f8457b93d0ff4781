#include "testlib.h"
#include "sanitize.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// The conversions of the emulation, which has those of kernels/half.go.
namespace emu {
float from_f16(unsigned short h);
unsigned short to_f16(float v);
}

static int failures, checks;
static long long seed = -1; // seed of the random test that runs; -1: none

Buffer::Buffer(int dtype, size_t n, bool front) : dtype_(dtype), size_(dtype == LB_F32 ? 4 : 2), n_(n)
{
	const size_t page = 4096;
	size_t bytes = n * size_, room = (bytes + page - 1) / page * page;
	mapped_ = room + 2 * page;
	map_ = (unsigned char *)mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map_ == MAP_FAILED || (room && mprotect(map_ + page, room, PROT_READ | PROT_WRITE))) {
		perror("no memory for a test");
		exit(2);
	}
	static const bool all_front = getenv("LB_EMU_FRONT");
	data_ = map_ + page + (front || all_front ? 0 : room - bytes);
	memset(data_, 0xff, bytes);
	emu::forbid(map_ + page, (size_t)(data_ - map_) - page);
	emu::forbid(data_ + bytes, (size_t)(map_ + page + room - data_) - bytes);
}

Buffer::~Buffer()
{
	emu::allow(map_, mapped_);
	munmap(map_, mapped_);
}

static uint16_t to_bf16(float v)
{
	uint32_t b;
	memcpy(&b, &v, 4);
	if (v != v)
		return (uint16_t)(b >> 16 | 0x40);
	return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t h)
{
	uint32_t b = (uint32_t)h << 16;
	float v;
	memcpy(&v, &b, 4);
	return v;
}

void Buffer::set(size_t i, double v)
{
	if (dtype_ == LB_F32) {
		((float *)data_)[i] = (float)v;
		return;
	}
	((uint16_t *)data_)[i] = dtype_ == LB_BF16 ? to_bf16((float)v) : emu::to_f16((float)v);
}

double Buffer::get(size_t i) const
{
	if (dtype_ == LB_F32)
		return ((float *)data_)[i];
	uint16_t h = ((uint16_t *)data_)[i];
	return dtype_ == LB_BF16 ? from_bf16(h) : emu::from_f16(h);
}

uint32_t Buffer::bits(size_t i) const
{
	return dtype_ == LB_F32 ? ((uint32_t *)data_)[i] : ((uint16_t *)data_)[i];
}

double round_to(int dtype, double v)
{
	if (dtype == LB_F32)
		return (float)v;
	return dtype == LB_BF16 ? from_bf16(to_bf16((float)v)) : emu::from_f16(emu::to_f16((float)v));
}

double Random::next(int dtype)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return round_to(dtype, (double)(state >> 40) / (1 << 23) - 1);
}

int Random::length(int most)
{
	static const int edges[] = {1, 2, 3, 5, 7, 8, 9, 11, 15, 16, 17, 23, 31, 32, 33, 47, 63, 64, 65, 72, 96, 97, 127, 128, 129,
		151, 191, 192, 193, 255, 256, 257, 383, 384, 385, 511, 512, 513};
	int n = maybe(3) ? 1 + below(most) : edges[below((int)(sizeof edges / sizeof edges[0]))];
	return n <= most ? n : 1 + n % most;
}

int chances()
{
	const char *s = getenv("LB_EMU_FUZZ");
	return s ? atoi(s) : 4;
}

Random chance(int i)
{
	const char *s = getenv("LB_EMU_SEED");
	seed = i < 0 ? -1 : (s ? atoll(s) : 0) + i;
	Random r((uint64_t)(seed + 1) * 1000003);
	for (int k = 0; k < 8; k++) // the first numbers of small seeds are alike
		r.next();
	return r;
}

double tolerance(int dtype) { return dtype == LB_BF16 ? 5e-3 : dtype == LB_F16 ? 7e-4 : 1e-5; }

void launch(const char *kernel, const void *args)
{
	const lb_kernel *k = lb_emu_find(kernel);
	if (!k) {
		fprintf(stderr, "no kernel %s\n", kernel);
		exit(2);
	}
	lb_launch plan = lb_emu_plan(k, args);
	if (lb_emu_launch(k, args, &plan)) {
		fprintf(stderr, "kernel %s: bad geometry (%u, %u, %u) x %u\n", kernel, plan.grid[0], plan.grid[1],
			plan.grid[2], plan.threads);
		exit(2);
	}
}

void fail(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	if (failures++ < 10) {
		fputs("FAIL ", stdout);
		vprintf(format, list);
		if (seed >= 0)
			printf(" (LB_EMU_SEED=%lld LB_EMU_FUZZ=1)", seed);
		putchar('\n');
	}
	va_end(list);
}

bool verify(const std::string &what, int dtype, double scale, double got, double want)
{
	checks++;
	if (got == want || (got != got && want != want))
		return true;
	if (fabs(got - want) <= tolerance(dtype) * fmax(1, fmax(scale, fabs(want))))
		return true;
	fail("%s: %.9g, want %.9g", what.c_str(), got, want);
	return false;
}

int finish(const char *name)
{
	printf("%s: %d checks, %d failures\n", name, checks, failures);
	return failures > 0;
}
