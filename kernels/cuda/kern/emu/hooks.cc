// What units that were compiled with -fsanitize=thread call at each load and store. The names are those of the
// compilers' own runtime, which is not linked; they are hidden, for a program may have that too.
#include "race.h"

#define HIDDEN extern "C" __attribute__((visibility("hidden")))
#define HERE __builtin_return_address(0)
#define HOOK(bytes) \
	HIDDEN void __tsan_read##bytes(void *p) { emu::touched(p, bytes, false, HERE); } \
	HIDDEN void __tsan_write##bytes(void *p) { emu::touched(p, bytes, true, HERE); } \
	HIDDEN void __tsan_unaligned_read##bytes(void *p) { emu::touched(p, bytes, false, HERE); } \
	HIDDEN void __tsan_unaligned_write##bytes(void *p) { emu::touched(p, bytes, true, HERE); }

HOOK(1)
HOOK(2)
HOOK(4)
HOOK(8)
HOOK(16)
HIDDEN void __tsan_read_range(void *p, size_t bytes) { emu::touched(p, bytes, false, HERE); }
HIDDEN void __tsan_write_range(void *p, size_t bytes) { emu::touched(p, bytes, true, HERE); }
HIDDEN void __tsan_func_entry(void *) {}
HIDDEN void __tsan_func_exit(void) {}
HIDDEN void __tsan_init() { emu::Races::on = true; }
