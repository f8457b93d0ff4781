package cpu

import (
	"math/bits"
	"unsafe"

	"latentbeam/kernels"
)

// arena lends blocks of memory to tensors. A block returns to its size class when its scope ends, so a
// loop that allocates the same shapes each time allocates nothing from Go after the first turn.
type arena struct {
	scopes []int               // start of each open scope in live
	live   []lease             // blocks lent inside a scope, oldest first
	free   map[int][][]float32 // by length
	lent   int                 // float32s in live
	idle   int                 // float32s in free
}

type lease struct {
	buf   *buffer
	block []float32
}

// classSize rounds n up to one of eight sizes for each power of two: at most an eighth is wasted, and
// shapes that differ a little share blocks.
func classSize(n int) int {
	step := 1 << max(bits.Len(uint(n))-4, 4)
	return (n + step - 1) / step * step
}

// take returns a block of at least n float32s. What is kept idle never exceeds what is in use: when the
// shapes change for good, the old blocks go back to the Go heap.
func (a *arena) take(n int) []float32 {
	size := classSize(n)
	if list := a.free[size]; len(list) > 0 {
		block := list[len(list)-1]
		a.free[size] = list[:len(list)-1]
		a.idle -= size
		return block
	}
	if a.idle > a.lent+size || a.free == nil {
		a.free, a.idle = map[int][][]float32{}, 0
	}
	return make([]float32, size)
}

// release ends the scopes from depth on and takes their blocks back.
func (a *arena) release(depth int) {
	if depth >= len(a.scopes) {
		return
	}
	start := a.scopes[depth]
	for i, l := range a.live[start:] {
		*l.buf = buffer{freed: true}
		size := len(l.block)
		a.free[size] = append(a.free[size], l.block)
		a.lent -= size
		a.idle += size
		a.live[start+i] = lease{}
	}
	a.live, a.scopes = a.live[:start], a.scopes[:depth]
}

// Alloc returns an uninitialised tensor that lives until the present scope ends; outside every scope, as
// long as it is used.
func (b *Backend) Alloc(dt kernels.DType, shape ...int) kernels.Tensor {
	buf := &buffer{}
	t := kernels.NewTensor(dt, buf, shape...)
	n, err := elements(shape)
	switch {
	case err != nil:
		b.fail("alloc: %w", err)
	case dt > kernels.F16:
		b.fail("alloc: element type %v is not supported", dt)
	}
	if b.err != nil {
		buf.freed = true
		return t
	}
	words := n
	if dt != kernels.F32 {
		words = (n + 1) / 2
	}
	block := b.arena.take(words)
	if len(b.arena.scopes) > 0 {
		b.arena.live = append(b.arena.live, lease{buf, block})
		b.arena.lent += len(block)
	}
	if dt == kernels.F32 {
		buf.f32 = block[:n:n]
	} else if n > 0 {
		buf.u16 = unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(block))), n)
	}
	return t
}

// Scope opens a scope; end frees what was allocated in it, and in scopes inside it that are still open.
// A second call of end does nothing.
func (b *Backend) Scope() (end func()) {
	a := &b.arena
	depth := len(a.scopes)
	a.scopes = append(a.scopes, len(a.live))
	done := false
	return func() {
		if !done {
			done = true
			a.release(depth)
		}
	}
}
