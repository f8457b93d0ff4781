//go:build !unix

package system

import "math"

const nonblock = 0

// MapFile reads the whole file into memory: on this system files are not mapped.
func MapFile(path string) (content []byte, unmap func() error, err error) {
	content, err = ReadRegular(path, math.MaxInt64)
	return content, func() error { return nil }, err
}

// DropPages does nothing: on this system files are not mapped.
func DropPages([]byte) error { return nil }

// ForgetPages does nothing: on this system files are not mapped.
func ForgetPages([]byte) {}

// ReadAhead does nothing: on this system files are not mapped.
func ReadAhead([]byte) {}

// MapScratch returns n bytes of the heap.
func MapScratch(n int) (mem []byte, unmap func() error, err error) {
	return make([]byte, n), func() error { return nil }, nil
}
