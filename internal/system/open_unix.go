//go:build unix

package system

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nonblock opens a FIFO without waiting for whoever writes to it. It changes nothing in regular files.
const nonblock = unix.O_NONBLOCK

// MapFile maps the file at path read-only, until unmap. The pages are shared with every process that maps the
// same file, and cost memory only once they are read.
func MapFile(path string) (content []byte, unmap func() error, err error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() == 0 { // which cannot be mapped
		return nil, func() error { return nil }, nil
	}
	content, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	return content, func() error { return unix.Munmap(content) }, nil
}

// DropPages gives the memory of what was read of content, a whole file from Open, back to the system. It stays
// readable.
func DropPages(content []byte) error {
	if len(content) == 0 {
		return nil
	}
	return unix.Madvise(content, unix.MADV_DONTNEED)
}

// ForgetPages gives the memory of the pages that lie wholly in part, a part of what Open or Scratch returned, back to the
// system. It stays readable.
func ForgetPages(part []byte) {
	if page := uintptr(os.Getpagesize()); len(part) > 0 {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
		skip := int((page - from%page) % page)
		if n := (len(part) - skip) / int(page) * int(page); n > 0 {
			_ = unix.Madvise(part[skip:skip+n], unix.MADV_DONTNEED) // advice
		}
	}
}

// ReadAhead asks the system to read part, a part of what Open returned, from the disk. It may wait for it.
func ReadAhead(part []byte) {
	if len(part) == 0 {
		return
	}
	first := unsafe.SliceData(part)
	before := int(uintptr(unsafe.Pointer(first)) % uintptr(os.Getpagesize()))
	whole := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(first), -before)), len(part)+before)
	_ = unix.Madvise(whole, unix.MADV_WILLNEED) // advice
}

// MapScratch returns n bytes outside the Go heap, until unmap. Pages take memory from when they are written to until
// Forget, which loses what is in them.
func MapScratch(n int) (mem []byte, unmap func() error, err error) {
	mem, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("map %d bytes of memory: %w", n, err)
	}
	return mem, func() error { return unix.Munmap(mem) }, nil
}
