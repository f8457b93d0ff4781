package system

import (
	"runtime"
	"unsafe"
)

// Numbers is a list of numbers, eight bytes each, outside the Go heap: as it grows it leaves no garbage, and the heap does not grow in proportion
// to it. The zero value is empty. Free returns its memory, and so does the collector once nobody has the list.
type Numbers struct {
	all   []uint64 // as many as there is room for
	n     int
	unmap func() error // nil: on the heap, because the system maps no more
}

const (
	numbersMin   = 4096
	numbersMoved = 1 << 17 // moved at once while the list grows: one MiB
	numberBytes  = int(unsafe.Sizeof(uint64(0)))
)

// Add adds a number.
func (l *Numbers) Add(v uint64) {
	if l.n == len(l.all) {
		l.grow(max(numbersMin, l.n+l.n/2))
	}
	l.all[l.n] = v
	l.n++
}

// grow moves the list to where n numbers have room. The old place is given back as it is read, so both together need little more than the new one.
func (l *Numbers) grow(n int) {
	var larger []uint64
	var release func() error
	if mem, unmap, err := MapScratch(n * numberBytes); err == nil {
		larger, release = unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), n), unmap
	} else {
		larger = make([]uint64, n)
	}
	for old := l.all; len(old) > 0; {
		part := old[:min(len(old), numbersMoved)]
		copy(larger[len(l.all)-len(old):], part)
		if l.unmap != nil {
			ForgetPages(unsafe.Slice((*byte)(unsafe.Pointer(&part[0])), len(part)*numberBytes))
		}
		old = old[len(part):]
	}
	n = l.n
	l.Free()
	l.all, l.n, l.unmap = larger, n, release
	runtime.SetFinalizer(l, nil) // of the smaller place
	runtime.SetFinalizer(l, (*Numbers).Free)
}

// All returns the numbers, in the order in which they were added, to be read and sorted until the next Add or Free. The caller keeps the list meanwhile.
func (l *Numbers) All() []uint64 { return l.all[:l.n] }

// Free empties the list.
func (l *Numbers) Free() {
	if l.unmap != nil {
		_ = l.unmap()
	}
	l.all, l.n, l.unmap = nil, 0, nil
}
