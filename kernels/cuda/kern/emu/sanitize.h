// Annotations for the sanitizers of a compiler (make sanitize): memory that must not be accessed, and memory without a
// value. In programs without sanitizers they do nothing.
#pragma once
#include <stddef.h>

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void *, size_t);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *, size_t);
__attribute__((weak)) void __msan_poison(const volatile void *, size_t);
__attribute__((weak)) void __msan_unpoison(const volatile void *, size_t);
}

namespace emu {

// forbid: an access of these bytes ends the process; allow undoes this.
inline void forbid(const void *p, size_t n)
{
	if (__asan_poison_memory_region)
		__asan_poison_memory_region(p, n);
}
inline void allow(const void *p, size_t n)
{
	if (__asan_unpoison_memory_region)
		__asan_unpoison_memory_region(p, n);
}

// valueless: these bytes count as uninitialised until they are written; known: they count as initialised.
inline void valueless(const void *p, size_t n)
{
	if (__msan_poison)
		__msan_poison(p, n);
}
inline void known(const void *p, size_t n)
{
	if (__msan_unpoison)
		__msan_unpoison(p, n);
}

} // namespace emu
