//go:build cuda && linux

package driver

// #include <stdlib.h>
// #include "calls.h"
import "C"

import (
	"strings"
	"time"
	"unsafe"

	"gorgonia.org/cu"
)

// The handles of package cu are structures of one pointer; these lines do not compile where they are not.
var (
	_ [unsafe.Sizeof(cu.Function{}) - unsafe.Sizeof(uintptr(0))]struct{}
	_ [unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(cu.Function{})]struct{}
	_ [unsafe.Sizeof(cu.Event{}) - unsafe.Sizeof(uintptr(0))]struct{}
	_ [unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(cu.Event{})]struct{}
)

func handle(f cu.Function) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&f)) }

// Shape is how many threads a kernel runs on.
type Shape struct {
	Grid    [3]uint32 // blocks
	Threads uint32    // of a block
	Shared  uint32    // bytes of dynamic shared memory of a block
}

// Launch enqueues a kernel that takes one structure by value. args points to it and holds no Go pointer; it
// may be changed when Launch returns. (cu.Function.Launch passes parameters of 8 bytes only.)
func Launch(f cu.Function, shape Shape, stream cu.Stream, args unsafe.Pointer) error {
	return check("cuLaunchKernel", C.lb_launch(handle(f), C.uint(shape.Grid[0]), C.uint(shape.Grid[1]),
		C.uint(shape.Grid[2]), C.uint(shape.Threads), C.uint(shape.Shared), unsafe.Pointer(stream.C()), args))
}

// Elapsed sets took to the times between events that have passed, pairs of from and to. (cu.Event.Elapsed asks for one.)
func Elapsed(took []time.Duration, from, to []cu.Event) error {
	ms := make([]float32, len(took))
	if len(took) == 0 {
		return nil
	}
	err := check("cuEventElapsedTime", C.lb_elapsed((*C.float)(&ms[0]), (*unsafe.Pointer)(unsafe.Pointer(&from[0])),
		(*unsafe.Pointer)(unsafe.Pointer(&to[0])), C.int(len(took))))
	for i, m := range ms {
		took[i] = time.Duration(float64(m) * float64(time.Millisecond))
	}
	return err
}

// mostLog is how much of what the driver's compiler says is read.
const mostLog = 4 << 10

// CompileLog returns what the driver's compiler says of PTX that could not be loaded, in one line; "" where it says
// nothing. It compiles it again.
func CompileLog(ptx string) string {
	text, log := C.CString(ptx), (*C.char)(C.calloc(1, mostLog))
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(log))
	C.lb_compile_log(text, log, mostLog)
	lines := strings.FieldsFunc(C.GoString(log), func(r rune) bool { return r == '\n' })
	return strings.Join(lines, "; ")
}

// AllowShared lets a kernel have up to bytes of dynamic shared memory; without it 48 KiB is the most. Such a kernel is
// said to want as many blocks on a multiprocessor as fit.
func AllowShared(f cu.Function, bytes int) error {
	return check("cuFuncSetAttribute", C.lb_allow_shared(handle(f), C.int(bytes)))
}

// HostAlloc returns n bytes of page-locked host memory, which devices copy from and to by themselves. Give it
// back with HostFree.
func HostAlloc(n int) ([]byte, error) {
	var p unsafe.Pointer
	if err := check("cuMemHostAlloc", C.lb_host_alloc(&p, C.size_t(n))); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// HostFree gives back what HostAlloc returned.
func HostFree(mem []byte) error {
	return Check("cuMemFreeHost", cu.MemFreeHost(unsafe.Pointer(unsafe.SliceData(mem))))
}

// UUID returns the identity of a device, its own where it is a part (MIG) of a GPU.
func UUID(device int) (id [16]byte, err error) {
	err = check("cuDeviceGetUuid", C.lb_device_uuid((*C.uchar)(&id[0]), C.int(device)))
	return id, err
}
