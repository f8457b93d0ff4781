//go:build cuda && linux

package nccl

/*
#cgo CFLAGS: -O2
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "nccl.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// IDSize is the length of a communicator's ID in bytes.
const IDSize = int(unsafe.Sizeof(C.lb_nccl_id{}))

// open opens the library at path.
func open(path string) (Library, error) {
	const room = 512
	name, message := C.CString(path), (*C.char)(C.calloc(1, room))
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(message))
	var v C.int
	if C.lb_nccl_open(name, &v, message, room) != 0 {
		return Library{}, fmt.Errorf("%s", C.GoString(message))
	}
	return Library{path, fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100)}, nil
}

// NewID returns the ID of a new communicator, by which its ranks find each other. It opens a socket on which they connect.
func NewID() ([]byte, error) {
	var id C.lb_nccl_id
	if err := check("ncclGetUniqueId", C.lb_nccl_id_new(&id), nil); err != nil {
		return nil, err
	}
	return C.GoBytes(unsafe.Pointer(&id), C.int(IDSize)), nil
}

// Comm is one rank's end of a communicator. It is not safe for concurrent use.
type Comm struct{ p unsafe.Pointer }

// Init starts to create the end of rank, on the device of the calling thread's context.
func Init(id []byte, rank, size int) (Comm, error) {
	if len(id) != IDSize {
		return Comm{}, fmt.Errorf("an id of %d bytes, NCCL's have %d", len(id), IDSize)
	}
	var c Comm
	rc := C.lb_nccl_init(&c.p, C.int(size), (*C.lb_nccl_id)(unsafe.Pointer(&id[0])), C.int(rank))
	return c, check("ncclCommInitRankConfig", rc, c.p)
}

// State reports whether the started operation is done. The error is an error of the operation or of the communicator.
func (c Comm) State() (done bool, err error) {
	rc := C.lb_nccl_state(c.p)
	if rc == C.LB_NCCL_IN_PROGRESS {
		return false, nil
	}
	return true, check("ncclCommGetAsyncError", rc, c.p)
}

// Transfer is device memory that one call of Exchange sends to a peer or receives from it.
type Transfer struct {
	Address uintptr
	Bytes   int
	Peer    int
	Receive bool
}

// Exchange starts to enqueue an exchange on stream. It is enqueued when State reports done. The order of transfers matters only
// between transfers with the same peer and direction.
func (c Comm) Exchange(transfers []Transfer, stream unsafe.Pointer) error {
	list := make([]C.lb_nccl_piece, len(transfers)+1)
	for i, p := range transfers {
		list[i] = C.lb_nccl_piece{address: C.uint64_t(p.Address), bytes: C.uint64_t(p.Bytes), peer: C.int(p.Peer)}
		if p.Receive {
			list[i].receive = 1
		}
	}
	return check("ncclGroupEnd", C.lb_nccl_exchange(c.p, &list[0], C.int(len(transfers)), stream), c.p)
}

// Abort stops the communicator's work on the device and frees its resources. It may wait for the device.
func (c Comm) Abort() error { return check("ncclCommAbort", C.lb_nccl_abort(c.p), nil) }

// Opened reports whether there is a communicator to abort.
func (c Comm) Opened() bool { return c.p != nil }

// check converts a result to an error.
func check(call string, rc C.int, comm unsafe.Pointer) error {
	if rc == 0 {
		return nil
	}
	more := ""
	if last := C.GoString(C.lb_nccl_last(comm)); last != "" {
		more = ": " + last
	}
	return fmt.Errorf("%s: %s (%d)%s", call, C.GoString(C.lb_nccl_text(rc)), int(rc), more)
}
