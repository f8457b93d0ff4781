// Modules and launches. The text of a module says which kernels it has, and the emulation runs them.
#include "fake.h"
#include "../kern/emu/launch.h"
#include "../kern/kernels.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace fake {

void reset_modules(Device *d)
{
	for (Module *m : d->modules)
		delete m;
	for (Function *f : d->functions)
		delete f;
	d->modules.clear();
	d->functions.clear();
}

} // namespace fake

using namespace fake;

// most_threads returns the largest number of threads for which a kernel was compiled.
static unsigned most_threads(const std::string &text, const char *name)
{
	size_t at = text.find(std::string(".entry ") + name + "("), body = text.find('{', at);
	size_t most = text.find(".maxntid ", at);
	return most < body ? (unsigned)atoi(text.c_str() + most + 9) : 1024;
}

// most_shared returns the shared memory that a block may have (CUDA C++ Programming Guide, technical specifications).
static int most_shared(int arch)
{
	return (arch < 80 ? 64 : arch >= 90 && arch < 120 ? 227 : arch == 80 || arch == 87 ? 163 : 99) << 10;
}

API cuModuleLoadData(Module **m, const void *image)
{
	CALL(cuModuleLoadData);
	if (!strstr((const char *)image, ".version"))
		return INVALID_IMAGE;
	std::lock_guard<std::recursive_mutex> guard(current()->lock);
	*m = new Module{current(), (const char *)image};
	current()->modules.insert(*m);
	return SUCCESS;
}

// With a buffer for messages of the compiler, this call always writes the same message and loads nothing.
API cuModuleLoadDataEx(Module **, const void *, unsigned n, int *options, void **values)
{
	CALL(cuModuleLoadDataEx);
	char *log = nullptr;
	size_t bytes = 0;
	for (unsigned i = 0; i < n; i++) {
		if (options[i] == 5)
			log = (char *)values[i];
		else if (options[i] == 6)
			bytes = (size_t)values[i];
		else
			return INVALID_VALUE;
	}
	if (!log || !bytes)
		return INVALID_VALUE;
	snprintf(log, bytes, "line 7 means nothing\nline 9 neither\n");
	return 218;
}

API cuModuleGetFunction(Function **f, Module *m, const char *name)
{
	CALL(cuModuleGetFunction);
	std::lock_guard<std::recursive_mutex> guard(current()->lock);
	if (!current()->modules.count(m))
		return INVALID_HANDLE;
	const lb_kernel *k = lb_emu_find(name);
	if (!k || m->text.find(std::string(".entry ") + name + "(") == std::string::npos)
		return NOT_FOUND;
	*f = new Function{current(), k};
	(*f)->threads = most_threads(m->text, name);
	current()->functions.insert(*f);
	return SUCCESS;
}

API cuFuncSetAttribute(Function *f, int attribute, int value)
{
	CALL(cuFuncSetAttribute);
	std::lock_guard<std::recursive_mutex> guard(current()->lock);
	if (!current()->functions.count(f))
		return INVALID_HANDLE;
	if (attribute == 9) // the share of shared memory: a hint
		return value >= -1 && value <= 100 ? SUCCESS : INVALID_VALUE;
	if (attribute != 8 || value < 0 || value > most_shared((int)setting("FAKE_ARCH", 80)))
		return INVALID_VALUE;
	f->shared = (unsigned)value;
	return SUCCESS;
}

static bool same(const lb_launch &a, const lb_launch &b)
{
	return a.grid[0] == b.grid[0] && a.grid[1] == b.grid[1] && a.grid[2] == b.grid[2] && a.threads == b.threads &&
		a.shared == b.shared;
}

API cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, Stream *s, void **params, void **)
{
	WORK(cuLaunchKernel, idle_launch(s));
	Device *d = current();
	std::lock_guard<std::recursive_mutex> guard(d->lock);
	if (!d->functions.count(f) || !d->streams.count(s))
		return INVALID_HANDLE;
	if (!lb_exists(f->kernel->min_arch, (int)setting("FAKE_ARCH", 80)))
		return NO_BINARY;
	lb_launch geometry = {{gx, gy, gz}, bx, shared};
	if (!gx || !gy || !gz || gx > 0x7fffffff || gy > 65535 || gz > 65535 || !bx || bx > f->threads || by != 1 || bz != 1 ||
	    shared > f->shared)
		return INVALID_VALUE;
	std::string args((const char *)params[0], f->kernel->args_size);
	lb_launch plan = lb_emu_plan(f->kernel, args.data());
	if (!same(plan, geometry)) {
		fprintf(stderr, "fake driver: %s launched as (%u %u %u) x %u + %u bytes, its plan is (%u %u %u) x %u + %u bytes\n",
			f->kernel->name, gx, gy, gz, bx, shared, plan.grid[0], plan.grid[1], plan.grid[2], plan.threads, plan.shared);
		return INVALID_VALUE;
	}
	const lb_kernel *k = f->kernel;
	if (k->min_arch == 90 && setting("FAKE_WGMMA", 1) == 0) // a device whose warpgroups compute nothing
		return SUCCESS;
	s->work.push_back([=] { return lb_emu_launch(k, args.data(), &geometry) ? (int)INVALID_VALUE : (int)SUCCESS; });
	return SUCCESS;
}
