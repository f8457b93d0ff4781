/* Launching kernels in the emulation: for C++ tests and for the stand-in driver (C linkage). */
#ifndef LB_EMU_LAUNCH_H
#define LB_EMU_LAUNCH_H
#include "../args.h"
#ifdef __cplusplus
extern "C" {
#endif

/* lb_kernel is a line of kernels.def. */
typedef struct {
	const char *unit, *name;
	unsigned args_size;
	int min_arch; /* lb_exists reads it */
	lb_launch (*plan)(const void *args);
	void (*run)(const void *args); /* one thread of the launch under way */
} lb_kernel;

/* lb_emu_find returns the kernel of that name, or NULL. */
const lb_kernel *lb_emu_find(const char *name);
/* lb_emu_kernels returns the whole table and its length. */
const lb_kernel *lb_emu_kernels(int *n);
/* lb_emu_plan returns the geometry of the launch for args. */
lb_launch lb_emu_plan(const lb_kernel *k, const void *args);
/* lb_emu_launch runs a kernel to its end on the calling OS thread. It returns 0, or 1 if the geometry differs from the
 * plan. If the threads of a kernel wait for each other forever, it prints a text and ends the process. */
int lb_emu_launch(const lb_kernel *k, const void *args, const lb_launch *geometry);
/* lb_emu_launch_block runs one block of a launch whose others would take too long. */
int lb_emu_launch_block(const lb_kernel *k, const void *args, const lb_launch *geometry, unsigned x, unsigned y);

/* lb_emu_conflicts returns, for all launches of this OS thread, how many accesses of ldmatrix would have waited for a bank
 * of shared memory. */
unsigned long long lb_emu_conflicts(void);

#ifdef __cplusplus
}
#endif
#endif
