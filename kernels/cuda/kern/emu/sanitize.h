// What the emulation says to the sanitizers of a compiler (make sanitize): where nobody may read or write, and what has
// no value yet. In programs without them all of it is nothing.
#pragma once
#include <stddef.h>

extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void *, size_t);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *, size_t);
__attribute__((weak)) void __msan_poison(const volatile void *, size_t);
__attribute__((weak)) void __msan_unpoison(const volatile void *, size_t);
}

namespace emu {

// forbid: who touches these bytes ends the process; allow takes that back.
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

// valueless: these bytes have no value until somebody writes them, whatever they are; known: they have one.
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
