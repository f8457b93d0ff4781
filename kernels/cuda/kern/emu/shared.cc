// What dynamic shared memory the kernels are launched with, by the formulas that the host uses (args_*.h): a line
// for each kernel and target with the bytes of the usual launch, of the largest, and those that a block of such a
// device has. It fails where a launch asks for more.
#include "../kernels.h"
#include <stdio.h>
#include <string.h>

// A target and the least that a block may have on devices that take it: of those that take sm_80, 8.6, 8.9 and 12.x
// have 99 KiB (CUDA C++ Programming Guide, technical specifications for each compute capability).
struct target { const char *name; int arch; lb_u32 most; };
static const target targets[] = {
	{"sm_75", 75, 64 << 10}, {"sm_80", 80, 99 << 10}, {"sm_90a", 90, 227 << 10}, {"sm_100a", 100, 227 << 10}};

// launches is what one kernel was seen to ask for. The first launch is the usual one.
struct launches {
	bool seen = false;
	lb_u32 usual = 0, most = 0;

	void add(const lb_launch &l)
	{
		if (!seen)
			usual = l.shared;
		seen = true;
		if (l.shared > most)
			most = l.shared;
	}
};

// each calls f with the arguments that make a difference to shared memory, usual ones first. Most kernels ask for
// the same always.
template <class A, class F> static void each(A *a, const char *, int, F f) { f(a); }

// Attention: every length up to a block of the short kernels, with a bias and without. Usual are 16 frames for the
// short ones, whole images for the others; only T5, whose heads have 64 channels, has a bias.
template <class F> static void each(lb_attn_args *a, const char *name, int arch, F f)
{
	static const int types[] = {LB_BF16, LB_F16, LB_F32}, channels[] = {64, 72, 512};
	auto matching = [&] {
		if (!strcmp(lb_attn_name(lb_attn_pick(a, arch)), name))
			f(a);
	};
	a->lead[0] = a->lead[1] = a->heads = 1;
	a->scale = 1;
	for (int type : types)
		for (int d : channels) {
			a->q.dtype = a->k.dtype = a->v.dtype = type;
			a->d = d;
			a->bias = 0;
			a->lq = a->lk = 16;
			matching();
			a->lq = a->lk = 1024;
			matching();
			for (a->bias = 0; a->bias < 2; a->bias++)
				for (a->lq = 1; a->lq <= LB_ATTN_SHORT + 1; a->lq++)
					for (a->lk = 1; a->lk <= LB_ATTN_SHORT + 1; a->lk++)
						matching();
		}
}

// GroupNorm: usual are 32 groups, each channel may be one.
template <class F> static void each(lb_group_norm_args *a, const char *, int, F f)
{
	a->columns = LB_GROUP_COLUMNS;
	for (a->groups = 32; a->groups <= LB_GROUP_COLUMNS; a->groups++)
		f(a);
}

int main()
{
	int rc = 0;
	for (const target &t : targets) {
		auto report = [&](const char *name, const launches &l) {
			printf("%s %s %u %u %u\n", name, t.name, l.usual, l.most, t.most);
			if (!l.seen || l.most > t.most) {
				fprintf(stderr, "%s asks for %u bytes of shared memory, a block of %s has %u\n", name, l.most, t.name, t.most);
				rc = 1;
			}
		};
#define K(unit, name, type, launch, least) \
		if (lb_exists(least, t.arch)) { \
			launches l; \
			type args = {}; \
			each(&args, #name, t.arch, [&](const type *a) { (void)a; l.add(launch); }); \
			report(#name, l); \
		}
#include "../kernels.def"
#undef K
	}
	return rc;
}
