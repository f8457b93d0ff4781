//go:build unix

package system

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nonblock is the flag to open a FIFO without waiting for a writer. It has no effect on regular files.
const nonblock = unix.O_NONBLOCK

// MapFile maps the file at path into memory, read-only, until unmap is called. All processes that map the file share its pages, and
// pages use memory only after they are read.
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
	if info.Size() == 0 { // an empty file cannot be mapped
		return nil, func() error { return nil }, nil
	}
	content, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	return content, func() error { return unix.Munmap(content) }, nil
}

// DropPages releases the memory of all pages of content, which MapFile returned. Pages are read again when they are
// used.
func DropPages(content []byte) error {
	if len(content) == 0 {
		return nil
	}
	return unix.Madvise(content, unix.MADV_DONTNEED)
}

// ForgetPages releases the memory of the pages that are completely inside part, a part of what MapFile or MapScratch returned. Pages
// of a file are read again when they are used; pages of scratch memory become zero.
func ForgetPages(part []byte) {
	if page := uintptr(os.Getpagesize()); len(part) > 0 {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(part)))
		skip := int((page - from%page) % page)
		if n := (len(part) - skip) / int(page) * int(page); n > 0 {
			_ = unix.Madvise(part[skip:skip+n], unix.MADV_DONTNEED) // only saves memory, so an error does not matter
		}
	}
}

// ReadAhead starts to read part, a part of what MapFile returned, from the disk. It may block until the data is read.
func ReadAhead(part []byte) {
	if len(part) == 0 {
		return
	}
	first := unsafe.SliceData(part)
	before := int(uintptr(unsafe.Pointer(first)) % uintptr(os.Getpagesize()))
	whole := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(first), -before)), len(part)+before)
	_ = unix.Madvise(whole, unix.MADV_WILLNEED) // only saves time, so an error does not matter
}

// MapScratch returns n zero bytes outside the Go heap, until unmap is called. A page uses memory only after it is written.
// ForgetPages releases it and loses its content.
func MapScratch(n int) (mem []byte, unmap func() error, err error) {
	mem, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("map %d bytes of memory: %w", n, err)
	}
	return mem, func() error { return unix.Munmap(mem) }, nil
}
