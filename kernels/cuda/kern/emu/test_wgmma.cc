// Tests the products of warpgroups in the emulation: every layout of operands, by a definition in this file, and the
// mistakes that the emulation must notice.
#include "../wgmma.h"
#include "../num.h"
#include "launch.h"
#include <initializer_list>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

#if LB_WGMMA
// The mistake that a kernel of these tests makes.
enum Fault { NONE, NO_PROXY, EARLY_PROXY, NO_ARRIVE, NO_COMMIT, NO_WAIT, OVERWRITTEN, RESCALED, LEFT, APART, FRAGMENTS, OUTSIDE, TWO };

static struct {
	swizzle kind; // of b
	bool b_mn, registers;
	Fault fault;
} now;
static const int TERMS = 32, MOST = 256, A_BYTES = 8 << 10, B_BYTES = 32 << 10;
static f32 a_value[64][TERMS], b_value[MOST][TERMS], found[64][MOST];

// Before the swizzle, the elements of b are in rows of `width` bytes. A row has terms, and blocks of rows follow each other, or
// it has columns, and blocks of columns follow. Without a swizzle there are matrices of 8 x 8; the next eight terms are 4096 bytes on.
static u32 width() { return 256u >> now.kind; }

static u32 place(u32 n, u32 k)
{
	u32 each = width() / 2;
	if (now.kind == PLAIN)
		return n / 8 * 128 + k / 8 * 4096 + (now.b_mn ? k % 8 * 16 + n % 8 * 2 : n % 8 * 16 + k % 8 * 2);
	if (now.b_mn)
		return n / each * TERMS * width() + swizzled(k * width() + n % each * 2, now.kind);
	return k / each * 8192 + swizzled(n * width() + k % each * 2, now.kind);
}

static u64 b_at(const u8 *b, u32 step) // of step k / 16
{
	if (now.kind == PLAIN)
		return matrix_on(matrix_at(b, PLAIN, 4096, 128), step * 8192);
	if (now.b_mn)
		return matrix_on(matrix_at(b, now.kind, TERMS * width(), 8 * width()), step * 16 * width());
	return matrix_on(matrix_at(b, now.kind, 16, 8 * width()), now.kind == SWIZZLE_32 ? step * 8192 : step * 32);
}

template <class T> static void fill(u8 *a, u8 *b, u32 columns)
{
	for (u32 i = tid(); i < 64 * TERMS; i += nthreads()) {
		u16 v = type_of<T>::narrow(a_value[i / TERMS][i % TERMS]);
		memcpy(a + swizzled(i / TERMS * 128 + i % TERMS * 2, SWIZZLE_128), &v, 2);
	}
	for (u32 i = tid(); i < columns * TERMS; i += nthreads()) {
		u16 v = type_of<T>::narrow(b_value[i / TERMS][i % TERMS]);
		memcpy(b + place(i / TERMS, i % TERMS), &v, 2);
	}
}

template <class T, int N, bool MN> static void product()
{
	u8 *a = smem(), *b = a + A_BYTES;
	u32 row = warp_id() * 16 + lane() / 4;
	f32 d[N / 2], other[N / 2] = {};
	if (now.fault == EARLY_PROXY)
		PROXY(0);
	fill<T>(a, b, N);
	if (now.fault != NO_PROXY && now.fault != EARLY_PROXY)
		PROXY(0);
	bar();
	u32 fragments[2][4];
	for (u32 s = 0; s < 2; s++)
		for (u32 i = 0; i < 4; i++) {
			const f32 *v = a_value[row + i % 2 * 8] + s * 16 + lane() % 4 * 2 + i / 2 * 8;
			fragments[s][i] = pack2<T>(v[0], v[1]);
		}
	if (now.fault != NO_ARRIVE)
		ARRIVE(0);
	for (u32 s = 0; s < 2; s++) {
		u64 am = matrix_on(matrix_at(a, SWIZZLE_128, 16, 1024), s * 32), bm = b_at(b, s);
		if (now.fault == APART && warp_id() == 3)
			bm = matrix_on(bm, 1024);
		if (now.fault == OUTSIDE)
			bm = matrix_on(bm, B_BYTES);
		if (now.registers)
			wgmma<T, N, MN>(d, fragments[s], bm, s > 0);
		else
			wgmma<T, N, MN>(d, am, bm, s > 0);
		if (now.fault == TWO) // another batch, whose sums nobody waits for yet
			wgmma<T, N, MN>(other, am, bm, 1);
	}
	if (now.fault == RESCALED)
		d[0] = 1;
	if (now.fault != NO_COMMIT)
		COMMIT(0);
	if (now.fault == OVERWRITTEN)
		memset(a + swizzled(row * 128, SWIZZLE_128), 1, 2);
	if (now.fault == FRAGMENTS)
		fragments[0][0] = 0;
	if (now.fault != NO_WAIT && now.fault != LEFT)
		WAIT(0, 0);
	for (u32 i = 0; i < N / 2; i++)
		found[row + i / 2 % 2 * 8][i / 4 * 8 + lane() % 4 * 2 + i % 2] = d[i];
	if (now.fault == NO_WAIT || now.fault == NO_COMMIT) {
		COMMIT(0);
		WAIT(0, 0);
	}
}

static void run(void (*f)(), u32 threads)
{
	static void (*kernel)();
	static lb_launch plan;
	kernel = f;
	plan = lb_launch_of(1, 1, 1, (i32)threads, A_BYTES + B_BYTES);
	lb_kernel k = {"test", "test", 0, 90, [](const void *) { return plan; }, [](const void *) { kernel(); }};
	memset(found, 0xff, sizeof found);
	lb_emu_launch(&k, nullptr, &plan);
}

// wrong counts the sums that differ from the definition.
static int wrong(u32 columns)
{
	int count = 0;
	for (u32 m = 0; m < 64; m++)
		for (u32 n = 0; n < columns; n++) {
			f32 want = 0;
			for (u32 k = 0; k < TERMS; k++)
				want += a_value[m][k] * b_value[n][k];
			count += found[m][n] != want; // whole numbers: exact
		}
	return count;
}

template <class T, int N, bool MN> static void check()
{
	for (swizzle kind : {PLAIN, SWIZZLE_128, SWIZZLE_64, SWIZZLE_32})
		for (bool registers : {false, true}) {
			now = {kind, MN, registers, NONE};
			run(product<T, N, MN>, 128);
			if (int n = wrong(N)) {
				printf("FAIL %d columns, swizzle %d, %s-major, a in %s: %d sums are wrong\n", N, kind, MN ? "MN" : "K",
					registers ? "registers" : "memory", n);
				failures++;
			}
		}
}

// notices fails the test if the emulation neither stops at the mistake nor gives wrong sums.
static void notices(Fault fault, const char *what, bool registers = false, u32 threads = 128)
{
	fflush(stdout);
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		fclose(stderr);
		now = {SWIZZLE_128, false, registers, fault};
		run(product<bf16, 64, false>, threads);
		_exit(wrong(64) > 0);
	}
	waitpid(child, &status, 0);
	if (status == 0) {
		printf("FAIL %s: not noticed\n", what);
		failures++;
	}
}
#endif

int main()
{
#if LB_WGMMA
	for (int i = 0; i < 64 * TERMS; i++)
		a_value[i / TERMS][i % TERMS] = (f32)(i * 7 % 23 - 11);
	for (int i = 0; i < MOST * TERMS; i++)
		b_value[i / TERMS][i % TERMS] = (f32)(i * 5 % 29 - 14);
	check<bf16, 8, false>();
	check<bf16, 72, true>();
	check<bf16, 256, false>();
	check<f16, 64, true>();
	check<f16, 192, false>();
	check<bf16, 256, true>();
	notices(NO_PROXY, "no fence between memory's proxies");
	notices(EARLY_PROXY, "a fence before what is written");
	notices(NO_ARRIVE, "no fence of registers");
	notices(NO_COMMIT, "no end of a batch");
	notices(NO_WAIT, "no wait");
	notices(OVERWRITTEN, "operands overwritten before the wait");
	notices(RESCALED, "sums changed before the wait");
	notices(LEFT, "products under way at the end");
	notices(APART, "warps with different descriptors");
	notices(FRAGMENTS, "fragments changed before the wait", true);
	notices(OUTSIDE, "a matrix outside of shared memory");
	notices(NONE, "two warps", false, 64);
	now = {SWIZZLE_128, false, false, TWO};
	run(product<bf16, 64, false>, 128);
	failures += wrong(64) != 0;
#endif
	printf("products of warpgroups: %d failures\n", failures);
	return failures > 0;
}
