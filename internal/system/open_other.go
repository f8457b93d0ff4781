//go:build !unix

package system

import "math"

const nonblock = 0

// MapFile reads the whole file at path: this system has no memory mapping we use.
func MapFile(path string) (content []byte, unmap func() error, err error) {
	content, err = ReadRegular(path, math.MaxInt64)
	return content, func() error { return nil }, err
}

// DropPages does nothing where files are not mapped.
func DropPages([]byte) error { return nil }

// ForgetPages does nothing where files are not mapped.
func ForgetPages([]byte) {}

// ReadAhead does nothing where files are not mapped.
func ReadAhead([]byte) {}

// MapScratch returns n bytes.
func MapScratch(n int) (mem []byte, unmap func() error, err error) {
	return make([]byte, n), func() error { return nil }, nil
}
