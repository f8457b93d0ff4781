//go:build !unix

package mapfile

import "os"

// Open reads the whole file at path: this system has no memory mapping we use.
func Open(path string) (content []byte, unmap func() error, err error) {
	content, err = os.ReadFile(path)
	return content, func() error { return nil }, err
}

// Drop does nothing where files are not mapped.
func Drop([]byte) error { return nil }

// Forget does nothing where files are not mapped.
func Forget([]byte) {}

// Ahead does nothing where files are not mapped.
func Ahead([]byte) {}

// Scratch returns n bytes.
func Scratch(n int) (mem []byte, unmap func() error, err error) {
	return make([]byte, n), func() error { return nil }, nil
}
