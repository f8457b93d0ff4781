//go:build !linux

package cpu

import "unsafe"

// mapMemory returns n bytes, aligned to cache lines.
func mapMemory(n int) ([]byte, error) {
	mem := make([]byte, n+lineSize)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(mem))) % lineSize
	return mem[skip:][:n:n], nil
}

func unmapMemory([]byte) {}

func willNeed([]byte) {}
