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

// The handles of package cu must be structures of one pointer. These lines do not compile otherwise.
var (
	_ [unsafe.Sizeof(cu.Function{}) - unsafe.Sizeof(uintptr(0))]struct{}
	_ [unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(cu.Function{})]struct{}
	_ [unsafe.Sizeof(cu.Event{}) - unsafe.Sizeof(uintptr(0))]struct{}
	_ [unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(cu.Event{})]struct{}
)

func handle(f cu.Function) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&f)) }

// Shape is the grid, the block size and the shared memory of a launch.
type Shape struct {
	Grid    [3]uint32 // blocks
	Threads uint32    // threads of a block
	Shared  uint32    // bytes of dynamic shared memory of a block
}

// Launch enqueues a kernel with one structure as its argument. args points to it; the structure contains no Go pointers and may be
// changed after Launch returns. (cu.Function.Launch supports only parameters of 8 bytes.)
func Launch(f cu.Function, shape Shape, stream cu.Stream, args unsafe.Pointer) error {
	return check("cuLaunchKernel", C.lb_launch(handle(f), C.uint(shape.Grid[0]), C.uint(shape.Grid[1]),
		C.uint(shape.Grid[2]), C.uint(shape.Threads), C.uint(shape.Shared), unsafe.Pointer(stream.C()), args))
}

// Elapsed sets took to the times between pairs of recorded events, from and to. (cu.Event.Elapsed measures one pair.)
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

// maxLog limits the bytes that are read from the log of the driver's compiler.
const maxLog = 4 << 10

// CompileLog compiles PTX that could not be loaded again, and returns the log of the driver's compiler in one line, or "" if it is
// empty.
func CompileLog(ptx string) string {
	text, log := C.CString(ptx), (*C.char)(C.calloc(1, maxLog))
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(log))
	C.lb_compile_log(text, log, maxLog)
	lines := strings.FieldsFunc(C.GoString(log), func(r rune) bool { return r == '\n' })
	return strings.Join(lines, "; ")
}

// AllowShared allows a kernel up to bytes of dynamic shared memory; the default limit is 48 KiB. It also tells the driver to prefer
// shared memory, so that as many blocks as possible fit on a multiprocessor.
func AllowShared(f cu.Function, bytes int) error {
	return check("cuFuncSetAttribute", C.lb_allow_shared(handle(f), C.int(bytes)))
}

// HostAlloc returns n bytes of page-locked host memory, which devices can access directly. HostFree frees
// it.
func HostAlloc(n int) ([]byte, error) {
	var p unsafe.Pointer
	if err := check("cuMemHostAlloc", C.lb_host_alloc(&p, C.size_t(n))); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// HostFree frees memory of HostAlloc.
func HostFree(mem []byte) error {
	return Check("cuMemFreeHost", cu.MemFreeHost(unsafe.Pointer(unsafe.SliceData(mem))))
}

// UUID returns the UUID of a device. A part of a GPU (MIG) has a UUID of its own.
func UUID(device int) (id [16]byte, err error) {
	err = check("cuDeviceGetUuid", C.lb_device_uuid((*C.uchar)(&id[0]), C.int(device)))
	return id, err
}
