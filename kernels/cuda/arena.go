//go:build cuda && linux

package cuda

import (
	"fmt"

	"gorgonia.org/cu"

	"latentbeam/kernels"
	"latentbeam/schemas/fault"
)

// arena allocates device memory for tensors. Scopes nest, so the memory is a stack: a tensor starts where the last one ends,
// and the end of a scope moves the top back. The memory can be reused at once, because one stream does all work in order. The
// stack consists of chunks. After the first iteration of a loop there is one chunk as large as the loop needs, so later
// iterations take no memory from the device.
type arena struct {
	eng       *engine
	limit     int // bytes of all chunks, 0: no limit
	chunks    []*chunk
	top       int       // index of the current chunk; later ones are empty
	scopes    []mark    // state of the stack at the start of each open scope
	live      []*buffer // tensors allocated inside a scope, oldest first
	used      int       // allocated bytes
	peak      int       // maximum of used since the outermost scope was opened
	maxUsed   int       // maximum of used since the last call of Peak
	nextChunk int       // size of the first chunk if there is none
}

// chunk is one piece of device memory.
type chunk struct {
	buf  *buffer
	used int
}

// mark is a state of the stack.
type mark struct{ top, chunkUsed, live, used int }

const (
	minChunk = 32 << 20
	// tensorAlign is the alignment of tensors, as the widest access of a warp needs it.
	tensorAlign = 256
)

// acquire returns the address of n bytes above the top of the stack.
func (a *arena) acquire(n int) (cu.DevicePtr, error) {
	n = max(1, (n+tensorAlign-1)/tensorAlign) * tensorAlign
	for ; a.top < len(a.chunks); a.top++ {
		if c := a.chunks[a.top]; c.buf.size-c.used >= n {
			break
		}
	}
	if a.top == len(a.chunks) {
		if err := a.grow(n); err != nil {
			return 0, err
		}
	}
	c := a.chunks[a.top]
	p := c.buf.ptr + cu.DevicePtr(c.used)
	c.used += n
	a.used += n
	a.peak, a.maxUsed = max(a.peak, a.used), max(a.maxUsed, a.used)
	return p, nil
}

// grow adds a chunk for n bytes: a large one, so that few are needed, or one just large enough if the device or the limit has
// no more.
func (a *arena) grow(n int) error {
	have := a.capacity()
	size := max(minChunk, n, a.nextChunk, have)
	if a.limit > 0 {
		size = max(n, min(size, a.limit-have))
		if have+n > a.limit {
			return fault.OutOfMemory(fmt.Errorf("%d bytes for tensors on %s: %d of the %d planned bytes are in use",
				n, a.eng.name(), have, a.limit))
		}
	}
	buf, err := a.eng.newBuffer(size)
	if err != nil && size > n && fault.IsOutOfMemory(err) {
		buf, err = a.eng.newBuffer(n)
	}
	if err != nil {
		return err
	}
	a.chunks, a.nextChunk = append(a.chunks, &chunk{buf: buf}), 0
	return nil
}

// capacity returns the total size of all chunks.
func (a *arena) capacity() (n int) {
	for _, c := range a.chunks {
		n += c.buf.size
	}
	return n
}

// mark returns the current state of the stack.
func (a *arena) mark() mark {
	m := mark{top: a.top, live: len(a.live), used: a.used}
	if a.top < len(a.chunks) {
		m.chunkUsed = a.chunks[a.top].used
	}
	return m
}

// reset returns to the state m and frees everything allocated since.
func (a *arena) reset(m mark) {
	for i := m.top; i <= a.top && i < len(a.chunks); i++ {
		a.chunks[i].used = 0
	}
	if m.top < len(a.chunks) {
		a.chunks[m.top].used = m.chunkUsed
	}
	for i, buf := range a.live[m.live:] {
		buf.freed = true
		a.live[m.live+i] = nil
	}
	a.live, a.top, a.used = a.live[:m.live], m.top, m.used
}

// release ends the scopes from depth on and returns the chunks that are no longer needed. At the end of the outermost scope the
// stack is empty: if there are several chunks, or one more than twice as large as needed, one chunk of the right size replaces
// them.
func (a *arena) release(depth int) (gone []*buffer) {
	if depth >= len(a.scopes) {
		return nil
	}
	a.reset(a.scopes[depth])
	a.scopes = a.scopes[:depth]
	if depth > 0 {
		return nil
	}
	if len(a.chunks) > 1 || a.capacity() > max(2*a.peak, minChunk) {
		for _, c := range a.chunks {
			gone = append(gone, c.buf)
		}
		a.nextChunk, a.chunks, a.top = a.peak+a.peak/8, nil, 0
	}
	a.peak = 0
	return gone
}

// Alloc returns an uninitialised tensor that lives until the current scope ends or, if no scope is open, as long as it is used.
func (b *Backend) Alloc(dt kernels.DType, shape ...int) kernels.Tensor {
	var buf *buffer
	n, err := elements(shape)
	switch {
	case err != nil:
		b.fail("alloc: %w", err)
	case dt > kernels.F16:
		b.fail("alloc: element type %v is not supported", dt)
	}
	if b.err == nil && n > 0 {
		if buf, err = b.allocate(n * dt.Size()); err != nil {
			b.fail("alloc: %w", err)
		}
	}
	if b.err != nil || n == 0 {
		buf = &buffer{eng: b.eng, freed: b.err != nil}
	}
	return kernels.NewTensor(dt, buf, shape...)
}

// allocate returns memory of the current scope, or separate memory if no scope is open.
func (b *Backend) allocate(size int) (*buffer, error) {
	if len(b.arena.scopes) == 0 {
		return b.eng.newBuffer(size)
	}
	p, err := b.arena.acquire(size)
	if err != nil {
		return nil, err
	}
	buf := &buffer{eng: b.eng, ptr: p, size: size}
	b.arena.live = append(b.arena.live, buf)
	return buf, nil
}

// Scope opens a scope. end frees everything allocated in it and in inner scopes that are still open. A second call of end does
// nothing.
func (b *Backend) Scope() (end func()) {
	a := &b.arena
	depth := len(a.scopes)
	a.scopes = append(a.scopes, a.mark())
	done := false
	return func() {
		if !done {
			done = true
			b.retained = append(b.retained, a.release(depth)...) // queued calls still use the memory
		}
	}
}

// Peak returns the largest number of bytes that tensors used at one time since the last call.
func (b *Backend) Peak() int64 {
	peak := b.arena.maxUsed
	b.arena.maxUsed = b.arena.used
	return int64(peak)
}
