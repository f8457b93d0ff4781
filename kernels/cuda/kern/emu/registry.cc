// The table of kernels.def, for finding kernels by name. Each unit is compiled on its own; what does not exist for
// the architecture that is emulated (LB_ARCH, 900 unless it is given) is not found.
#include "../kernels.h"
#include "launch.h"
#include <string.h>

#ifndef LB_ARCH
#define LB_ARCH 900
#endif

#define K(unit, name, type, plan, arch) extern "C" __attribute__((weak)) void name(const type);
#include "../kernels.def"
#undef K

#define K(unit, name, type, launch, arch) \
	{#unit, #name, sizeof(type), arch, \
		[](const void *p) { \
			const type *a = (const type *)p; \
			return launch; \
		}, \
		[](const void *p) { name(*(const type *)p); }},
static const lb_kernel table[] = {
#include "../kernels.def"
	{}, // so that the table has a line where there are no kernels
};
#undef K

extern "C" const lb_kernel *lb_emu_kernels(int *n)
{
	*n = sizeof table / sizeof table[0] - 1;
	return table;
}

extern "C" const lb_kernel *lb_emu_find(const char *name)
{
	int n;
	for (const lb_kernel *k = lb_emu_kernels(&n); n--; k++)
		if (!strcmp(k->name, name))
			return k->min_arch * 10 <= LB_ARCH ? k : nullptr;
	return nullptr;
}
