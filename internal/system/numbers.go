package system

import (
	"runtime"
	"unsafe"
)

// Numbers is a list of 64-bit numbers outside the Go heap. It leaves no garbage as it grows, and it does not make the heap grow in
// proportion. The zero value is an empty list. Free releases its memory; otherwise a finalizer does.
type Numbers struct {
	room  []uint64 // numbers and free room
	n     int
	unmap func() error // nil: all is on the heap, because mapping failed
}

const (
	numbersMin   = 4096
	numbersMoved = 1 << 17 // numbers that are moved at once while the list grows: one MiB
	numberBytes  = int(unsafe.Sizeof(uint64(0)))
)

// Add adds a number.
func (l *Numbers) Add(v uint64) {
	if l.n == len(l.room) {
		l.grow(max(numbersMin, l.n+l.n/2))
	}
	l.room[l.n] = v
	l.n++
}

// grow moves the list to memory with room for n numbers. It releases the old memory part by part as it is copied, so old and new
// memory together are only a little larger than the new one.
func (l *Numbers) grow(n int) {
	var larger []uint64
	var release func() error
	if mem, unmap, err := MapScratch(n * numberBytes); err == nil {
		larger, release = unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), n), unmap
	} else {
		larger = make([]uint64, n)
	}
	for old := l.room; len(old) > 0; {
		part := old[:min(len(old), numbersMoved)]
		copy(larger[len(l.room)-len(old):], part)
		if l.unmap != nil {
			ForgetPages(unsafe.Slice((*byte)(unsafe.Pointer(&part[0])), len(part)*numberBytes))
		}
		old = old[len(part):]
	}
	n = l.n
	l.Free()
	l.room, l.n, l.unmap = larger, n, release
	runtime.SetFinalizer(l, nil) // set by an earlier grow
	runtime.SetFinalizer(l, (*Numbers).Free)
}

// All returns the numbers in the order in which they were added. The caller may read and sort the slice until the next Add or Free,
// and must keep a reference to the list as long as it uses the slice.
func (l *Numbers) All() []uint64 { return l.room[:l.n] }

// Free empties the list.
func (l *Numbers) Free() {
	if l.unmap != nil {
		_ = l.unmap()
	}
	l.room, l.n, l.unmap = nil, 0, nil
}
