package cpu

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapMemory returns n bytes outside the Go heap, in huge pages if the system has them available.
func mapMemory(n int) ([]byte, error) {
	const hugePage = 2 << 20
	if n > hugePage/2 {
		n = (n + hugePage - 1) / hugePage * hugePage
	}
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // a hint: without it the memory is only slower
	return mem, nil
}

func unmapMemory(mem []byte) { _ = unix.Munmap(mem) }

// willNeed asks the system to read the pages of a mapped file in advance.
func willNeed(mem []byte) {
	if len(mem) == 0 {
		return
	}
	p := unsafe.Pointer(unsafe.SliceData(mem))
	before := int(uintptr(p) % uintptr(os.Getpagesize()))
	page := unsafe.Slice((*byte)(unsafe.Add(p, -before)), len(mem)+before)
	_ = unix.Madvise(page, unix.MADV_WILLNEED) // a hint
}
