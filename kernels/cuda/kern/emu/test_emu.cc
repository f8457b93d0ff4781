// Tests the emulation itself: the results of each collective, by definitions in this file, and the mistakes that it must
// notice.
#include "../lb.h"
#include "../num.h"
#include "launch.h"
#include "race.h"
#include "sanitize.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if LB_TENSOR_BF16
typedef bf16 number;
#else
typedef f16 number;
#endif

static int failures;
static u16 source[64], matrix[16 * 16];
static f32 found[256];

#define CHECK(condition) do { \
		if (!(condition)) { \
			printf("FAIL line %d: %s\n", __LINE__, #condition); \
			failures++; \
		} \
	} while (0)

static int run(void (*f)(), u32 threads, u32 shared)
{
	static void (*kernel)();
	static lb_launch plan;
	kernel = f;
	plan = lb_launch_of(2, 1, 1, (i32)threads, shared);
	lb_kernel k = {"test", "test", 0, 75, [](const void *) { return plan; }, [](const void *) { kernel(); }};
	return lb_emu_launch(&k, nullptr, &plan);
}

// dies reports whether a launch ends the process.
static bool dies(void (*f)(), u32 threads)
{
	fflush(stdout);
	if (pid_t child = fork()) {
		int status;
		waitpid(child, &status, 0);
		return status != 0;
	}
	fclose(stderr);
	run(f, threads, 1024);
	_exit(0);
}

// tell records a result. If there are two blocks, the second one's counts.
static void tell(u32 i, f32 v)
{
	if (bx() == 1)
		found[i] = v;
}

static void shuffles()
{
	f32 x = (f32)lane();
	tell(tid(), shfl_xor(x, 5) + 100 * shfl(x, 31 - lane()));
}

static void reduce() // through shared memory: a sum over the block
{
	f32 *s = (f32 *)smem();
	s[tid()] = (f32)tid();
	bar();
	f32 sum = 0;
	for (u32 i = 0; i < nthreads(); i++)
		sum += s[i];
	bar();
	tell(tid(), sum);
}

static void hand_over() // from the last warp to the others, twice in one place
{
	f32 *s = (f32 *)smem(), sum = 0;
	u32 all = nthreads();
	for (u32 i = 0; i < 2; i++) {
		if (tid() >= all - 32) {
			if (i > 0)
				emu::barrier_of(2, all, true);
			s[lane()] = (f32)(i + lane());
			emu::barrier_of(1, all, false);
			continue;
		}
		emu::barrier_of(1, all, true);
		sum += s[lane()];
		if (i == 0)
			emu::barrier_of(2, all, false);
	}
	tell(tid(), sum);
}

static void signal_only() { emu::barrier_of(3, nthreads(), false); } // nobody waits

static void signal_half() // and the other half does not come
{
	if (warp_id() == 0)
		emu::barrier_of(3, nthreads(), false);
}

static void unwaited() // a copy is not there before it was waited for
{
	u16 *s = (u16 *)smem();
	cp16(s + 8 * tid(), source, 10);
	cp_commit();
	tell(tid(), widen_bf16(s[8 * tid()]));
}

static void waited()
{
	u16 *s = (u16 *)smem();
	cp16(s + 8 * tid(), source, 10);
	cp_commit();
	cp16(s + 512 + 8 * tid(), source, 16);
	cp_commit();
	cp_wait<1>();
	tell(tid(), s[8 * tid() + 4] * 1000.0f + s[8 * tid() + 5]);
	cp_wait<0>();
}

static void product() // of a matrix and its transpose, by ldmatrix in both ways
{
	u16 *s = (u16 *)smem();
	for (u32 i = lane(); i < 256; i += 32)
		s[i] = matrix[i];
	warp_bar();
	u32 a[4], b[4];
	ldm4(a, s + (lane() & 15) * 16 + lane() / 16 * 8);
	ldm4(b, s + (lane() / 16 * 8 + (lane() & 7)) * 16 + (lane() / 8 & 1) * 8);
	f32 d[2][4] = {};
	mma16<number>(d[0], a, b);
	mma16<number>(d[1], a, b + 2);
	for (int n = 0; n < 2; n++)
		for (int i = 0; i < 4; i++)
			tell((lane() / 4 + i / 2 * 8) * 16 + n * 8 + lane() % 4 * 2 + i % 2, d[n][i]);
}

static void square() // of a matrix: its columns come transposed
{
	u16 *s = (u16 *)smem();
	for (u32 i = lane(); i < 256; i += 32)
		s[i] = matrix[i];
	warp_bar();
	u32 a[4], b[4];
	ldm4(a, s + (lane() & 15) * 16 + lane() / 16 * 8);
	ldm4t(b, s + (lane() & 15) * 16 + lane() / 16 * 8);
	f32 d[2][4] = {};
	mma16<number>(d[0], a, b);
	mma8<number>(d[1], a, b + 2);
	mma8<number>(d[1], a + 2, b + 3);
	for (int n = 0; n < 2; n++)
		for (int i = 0; i < 4; i++)
			tell((lane() / 4 + i / 2 * 8) * 16 + n * 8 + lane() % 4 * 2 + i % 2, d[n][i]);
}

static void unordered() // other threads' data is read before a barrier
{
	f32 *s = (f32 *)smem();
	s[tid()] = 1;
	tell(tid(), s[tid() ^ 32]);
}

static void neighbours() // a shuffle orders no memory
{
	f32 *s = (f32 *)smem();
	s[tid()] = 1;
	shfl(1u, 0);
	tell(tid(), s[tid() ^ 1]);
}

static void warp_ordered() // a barrier of the warp orders memory
{
	f32 *s = (f32 *)smem();
	s[tid()] = 1;
	warp_bar();
	tell(tid(), s[tid() ^ 1]);
	warp_bar();
	s[tid()] = 2;
}

static void overwritten() // data is overwritten that other threads may still read
{
	f32 *s = (f32 *)smem();
	s[tid()] = 1;
	bar();
	tell(tid(), s[0]);
	s[tid()] = 2;
}

static void past_copy() // a copy that was not waited for before the barrier
{
	u16 *s = (u16 *)smem();
	cp16(s + 8 * tid(), source, 16);
	cp_commit();
	bar();
	tell(tid(), s[8 * (tid() ^ 1)]);
	cp_wait<0>();
}

static void rows_of_others() // ldmatrix of what other lanes have just written
{
	u16 *s = (u16 *)smem();
	for (u32 i = 0; i < 8; i++)
		s[8 * lane() + i] = 0;
	u32 r[4];
	ldm4(r, s + 8 * (31 - lane()));
	tell(tid(), (f32)r[0]);
}

static void same_place() { ((f32 *)global((u64)found))[lane()] = 1; } // of all warps and blocks

static void divergent()
{
	if (lane() < 16)
		warp_bar();
	else
		shfl(1u, 0);
}

static void left_alone() // half of the warps do not come
{
	if (warp_id() == 0)
		bar();
}

static void elsewhere() // ldmatrix of an address that is not in shared memory
{
	alignas(16) static u16 rows[64];
	u32 r[4];
	ldm4(r, rows);
}

static void misaligned() { tell(0, (f32)ld16((u8 *)source + 2).v[0]); }

static void beyond() { smem()[1024 + tid()] = 1; }

static void products()
{
	for (int i = 0; i < 256; i++)
		matrix[i] = type_of<number>::narrow((f32)(i * 7 % 23 - 11));
	auto at = [](int row, int col) { return type_of<number>::widen(matrix[row * 16 + col]); };
	run(product, 32, 1024);
	for (int i = 0; i < 256; i++) {
		f32 want = 0;
		for (int k = 0; k < 16; k++)
			want += at(i / 16, k) * at(i % 16, k);
		CHECK(found[i] == want);
	}
	run(square, 32, 1024);
	for (int i = 0; i < 256; i++) {
		f32 want = 0;
		for (int k = 0; k < 16; k++)
			want += at(i / 16, k) * at(k, i % 16);
		CHECK(found[i] == want);
	}
}

static void conversions()
{
	for (u32 h = 0; h < 65536; h++) {
		f32 a = widen_f16((u16)h), b = widen_bf16((u16)h);
		CHECK(a != a || narrow_f16(a) == h);
		CHECK(b != b || narrow_bf16(b) == h);
	}
	CHECK(narrow_bf16(256.0f + 1) == narrow_bf16(256) && narrow_f16(2048.0f + 3) == narrow_f16(2052));
	CHECK(sigmoid(0) == 0.5f && sigmoid(200) == 1 && sigmoid(-200) == 0);
	for (f32 x = -20; x < 80; x += 0.37f) {
		f32 right = (f32)(1 / (1 + __builtin_exp(-(double)x))), error = sigmoid(x) / right - 1;
		CHECK(error < 2e-6f && error > -2e-6f);
	}
}

int main()
{
	for (int i = 0; i < 64; i++)
		source[i] = (u16)(i + 1);
	run(shuffles, 64, 0);
	for (int i = 0; i < 64; i++)
		CHECK(found[i] == (i % 32 ^ 5) + 100 * (31 - i % 32));
	run(reduce, 96, 512);
	CHECK(found[0] == 95 * 48 && found[95] == 95 * 48);
	run(hand_over, 96, 512);
	CHECK(found[5] == 11 && found[63] == 63);
	run(unwaited, 32, 2048);
	emu::known(found, sizeof found); // though it has no value
	CHECK(found[3] != found[3]);
	run(waited, 32, 2048);
	CHECK(found[31] == 5000); // the sixth element and what follows are cleared
	products();
	conversions();
	CHECK(dies(divergent, 32));
	CHECK(dies(left_alone, 64));
	CHECK(dies(signal_only, 64));
	CHECK(dies(signal_half, 64));
	CHECK(dies(misaligned, 32));
	CHECK(dies(beyond, 32));
	CHECK(dies(elsewhere, 32));
	CHECK(!dies(shuffles, 32));
	CHECK(!dies(warp_ordered, 64));
	for (void (*race)() : {unordered, neighbours, overwritten, past_copy, rows_of_others, same_place})
		CHECK(dies(race, 64) == emu::Races::on);
	lb_launch other = lb_launch_of(1, 1, 1, 33, 0);
	lb_kernel k = {"", "", 0, 75, [](const void *) { return lb_launch_of(1, 1, 1, 32, 0); }, [](const void *) {}};
	CHECK(lb_emu_launch(&k, nullptr, &other) == 1);
	printf("emulation: %d failures\n", failures);
	return failures > 0;
}
