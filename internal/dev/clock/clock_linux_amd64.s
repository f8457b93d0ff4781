#include "textflag.h"

// func load() uintptr
TEXT ·load(SB), NOSPLIT, $0-8
	MOVQ runtime·vdsoClockgettimeSym(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// func store()
TEXT ·store(SB), NOSPLIT, $0-0
	LEAQ jumping<>(SB), AX
	MOVQ AX, runtime·vdsoClockgettimeSym(SB)
	RET

// int jumping(clockid_t clock in DI, struct timespec *now in SI), called as C, on the stack of the system.
TEXT jumping<>(SB), NOSPLIT|NOFRAME, $0
	SUBQ $24, SP // so the stack is aligned where the function of the kernel begins
	MOVQ DI, 0(SP)
	MOVQ SI, 8(SP)
	MOVQ ·kernels(SB), AX
	CALL AX
	MOVQ 0(SP), DI
	MOVQ 8(SP), SI
	ADDQ $24, SP
	TESTL DI, DI // CLOCK_REALTIME
	JNZ done
	MOVQ ·jump(SB), CX
	ADDQ CX, 0(SI)
done:
	RET
