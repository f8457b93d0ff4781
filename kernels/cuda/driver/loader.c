//go:build cuda && linux

#define _GNU_SOURCE
#include "loader.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Every entry point returns a CUresult, which is an int. 3 is CUDA_ERROR_NOT_INITIALIZED. */
static int not_opened(void) { return 3; }

#define X(name) __attribute__((visibility("hidden"))) void *lb_slot_##name = (void *)not_opened;
#include "symbols.h"
#undef X

static const struct {
	const char *name;
	void **slot;
} entries[] = {
#define X(name) {#name, &lb_slot_##name},
#include "symbols.h"
#undef X
};

static void *library;

/* gorgonia.org/cu calls cuInit when the program starts, and ends the program if it fails. It is linked to this cuInit,
 * which succeeds. lb_driver_open calls the driver's own cuInit. */
int cuInit(unsigned int flags) {
	(void)flags;
	return 0;
}

void *lb_driver_symbol(const char *name) { return library ? dlsym(library, name) : NULL; }

/* start initialises the library h and reads its version. */
static void start(void *h, int least_version, lb_opened *r) {
	static const char *const needed[] = {"cuInit", "cuDriverGetVersion", "cuLaunchKernel", "cuMemAlloc_v2"};
	for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
		if (!dlsym(h, needed[i])) {
			r->outcome = LB_OPEN_NO_SYMBOL;
			snprintf(r->message, sizeof r->message, "%s", needed[i]);
			return;
		}
	}
	int (*init)(unsigned int) = (int (*)(unsigned int))dlsym(h, "cuInit");
	int (*version)(int *) = (int (*)(int *))dlsym(h, "cuDriverGetVersion");
	r->outcome = LB_OPEN_FAILED;
	if ((r->code = init(0)) != 0 || (r->code = version(&r->version)) != 0) {
		return;
	}
	if (r->version < least_version) {
		r->outcome = LB_OPEN_TOO_OLD;
		r->code = r->version;
		return;
	}
	r->outcome = LB_OPEN_DONE;
}

void lb_driver_open(const char *path, int least_version, lb_opened *r) {
	memset(r, 0, sizeof *r);
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h) {
		r->outcome = LB_OPEN_NO_LIBRARY;
		snprintf(r->message, sizeof r->message, "%s", dlerror());
		return;
	}
	library = h; /* also if it does not start, because it knows the names of its errors */
	start(h, least_version, r);
	if (r->outcome != LB_OPEN_DONE) {
		return; /* not closed, because a driver that has been started cannot be unloaded safely */
	}
	r->total = (int)(sizeof entries / sizeof entries[0]);
	for (int i = 0; i < r->total; i++) {
		void *entry = dlsym(h, entries[i].name);
		if (entry) {
			*entries[i].slot = entry;
			r->bound++;
		}
	}
}
