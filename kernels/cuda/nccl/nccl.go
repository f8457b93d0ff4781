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

// IDSize is the length of what the ranks of a communicator find each other by.
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

// NewID returns what the ranks of a new communicator find each other by. It opens a socket to wait for them.
func NewID() ([]byte, error) {
	var id C.lb_nccl_id
	if err := check("ncclGetUniqueId", C.lb_nccl_id_new(&id), nil); err != nil {
		return nil, err
	}
	return C.GoBytes(unsafe.Pointer(&id), C.int(IDSize)), nil
}

// Comm is one rank's end of a communicator. Its calls are made one after the other.
type Comm struct{ p unsafe.Pointer }

// Init begins to make the end of rank, on the device of the calling thread's context.
func Init(id []byte, rank, size int) (Comm, error) {
	if len(id) != IDSize {
		return Comm{}, fmt.Errorf("an id of %d bytes, NCCL's have %d", len(id), IDSize)
	}
	var c Comm
	rc := C.lb_nccl_init(&c.p, C.int(size), (*C.lb_nccl_id)(unsafe.Pointer(&id[0])), C.int(rank))
	return c, check("ncclCommInitRankConfig", rc, c.p)
}

// State reports whether what was begun is done; the error is what became of it, or of the communicator since.
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

// Exchange begins to enqueue an exchange on stream. Only when State is done is it there. The order of transfers counts
// for each peer and direction alone.
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

// Abort stops what the device does for the communicator and gives back what it has. It may wait for the device.
func (c Comm) Abort() error { return check("ncclCommAbort", C.lb_nccl_abort(c.p), nil) }

// Opened reports whether there is a communicator to destroy or abort.
func (c Comm) Opened() bool { return c.p != nil }

// check makes a result an error.
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
