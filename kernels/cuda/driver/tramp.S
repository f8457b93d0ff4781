//go:build cuda && linux

// One jump for each driver entry point that gorgonia.org/cu links to, through the slot that lb_driver_open
// in loader.c fills.

	.section .note.GNU-stack,"",%progbits
	.text
#if defined(__x86_64__)
#define X(name) .globl name; .type name,%function; .p2align 4; name: jmp *lb_slot_##name(%rip); .size name, .-name;
#elif defined(__aarch64__)
#define X(name) .globl name; .type name,%function; .p2align 4; name: \
	adrp x16, lb_slot_##name; ldr x16, [x16, :lo12:lb_slot_##name]; br x16; .size name, .-name;
#else
#error "the driver loader knows x86-64 and aarch64"
#endif
#include "symbols.h"
