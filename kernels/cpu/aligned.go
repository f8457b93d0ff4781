package cpu

import "unsafe"

// scratch is aligned memory that a worker reuses from call to call.
type scratch struct{ lines [][lineSize]byte }

// acquire returns n bytes, uninitialised, aligned to a cache line. The bytes returned before are no longer valid.
func (s *scratch) acquire(n int) unsafe.Pointer {
	want := (n + lineSize - 1) / lineSize
	if len(s.lines) < want {
		lines := make([][lineSize]byte, want+want/8+1) // one more: the heap aligns to less than a line
		first := unsafe.Pointer(unsafe.SliceData(lines))
		skip := -uintptr(first) % lineSize
		s.lines = unsafe.Slice((*[lineSize]byte)(unsafe.Add(first, skip)), len(lines)-1)
	}
	return unsafe.Pointer(unsafe.SliceData(s.lines))
}
