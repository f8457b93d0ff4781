// Fibers: a stack and what a call must keep. Switching is a dozen instructions on x86-64 and goes by
// ucontext elsewhere (which asks the kernel about signals each time).
#pragma once
#include <stddef.h>

extern "C" void lb_fiber_switch(void **from, void *to);

#if defined(__x86_64__)
asm(R"(
.text
.globl lb_fiber_switch
.hidden lb_fiber_switch
.type lb_fiber_switch,@function
lb_fiber_switch:
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
.size lb_fiber_switch,.-lb_fiber_switch
)");

namespace emu {

// fiber_new returns the context of a fiber that will call f, which never returns.
inline void *fiber_new(void *stack, size_t size, void (*f)())
{
	void **top = (void **)((char *)stack + size / 16 * 16);
	*--top = nullptr; // where f would return to, and what makes its stack aligned
	*--top = (void *)f;
	for (int i = 0; i < 6; i++)
		*--top = nullptr;
	return top;
}

// fiber_switch saves the calling fiber in from and goes on with to.
inline void fiber_switch(void **from, void *to) { lb_fiber_switch(from, to); }

} // namespace emu

#else
#include <memory>
#include <new>
#include <ucontext.h>

namespace emu {

inline void *fiber_new(void *stack, size_t size, void (*f)())
{
	size_t own = (sizeof(ucontext_t) + 63) / 64 * 64; // the context lies at the foot of the stack
	ucontext_t *c = new (stack) ucontext_t;
	getcontext(c);
	c->uc_stack.ss_sp = (char *)stack + own;
	c->uc_stack.ss_size = size - own;
	c->uc_link = nullptr;
	makecontext(c, f, 0);
	return c;
}

inline void fiber_switch(void **from, void *to)
{
	static thread_local ucontext_t scheduler;
	if (!*from)
		*from = &scheduler;
	swapcontext((ucontext_t *)*from, (ucontext_t *)to);
}

} // namespace emu
#endif
