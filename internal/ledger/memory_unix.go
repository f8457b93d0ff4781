//go:build unix

package ledger

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allocate takes zeroed memory from the kernel, outside the Go heap: the collector neither scans it
// nor lets the heap grow in proportion to it, and pages not yet touched cost nothing.
func allocate(slots int) ([]slot, func(), error) {
	const access, kind = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_ANON | unix.MAP_PRIVATE
	b, err := unix.Mmap(-1, 0, slots*slotBytes, access, kind)
	if err != nil {
		return nil, nil, fmt.Errorf("allocate %d bytes for the ledger's index: %w", slots*slotBytes, err)
	}
	return unsafe.Slice((*slot)(unsafe.Pointer(&b[0])), slots), func() { unix.Munmap(b) }, nil
}

// discard gives the pages of whole slots back to the kernel. They must begin at a page and are not used any more. Pages
// that the kernel does not take now go when the whole allocation is freed.
func discard(slots []slot) {
	_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Pointer(&slots[0])), len(slots)*slotBytes), unix.MADV_DONTNEED)
}
