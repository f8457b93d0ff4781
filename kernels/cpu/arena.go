package cpu

import (
	"fmt"
	"runtime"
	"unsafe"

	"latentbeam/kernels"
)

// arena allocates memory for tensors. Scopes nest, so the memory is a stack: a tensor starts where the last one ends, and the
// end of a scope moves the top back. The stack consists of chunks outside the Go heap, where they are neither scanned nor
// cleared and may consist of huge pages. After the first iteration of a loop there is one chunk as large as the loop needs, so
// later iterations take no memory from the system.
type arena struct {
	chunks    []*chunk
	top       int       // index of the current chunk; later ones are empty
	scopes    []mark    // state of the stack at the start of each open scope
	live      []*buffer // tensors allocated inside a scope, oldest first
	used      int       // allocated bytes
	peak      int       // maximum of used since the outermost scope was opened
	maxUsed   int       // maximum of used since the last call of Peak
	nextChunk int       // size of the first chunk if there is none
}

// chunk is one piece of memory. It is unmapped by drop, or when nothing refers to it any more.
type chunk struct {
	mem     []byte
	used    int
	cleanup runtime.Cleanup
}

// mark is a state of the stack.
type mark struct{ top, chunkUsed, live, used int }

const (
	minChunk = 1 << 20
	// lineSize is the alignment of tensors, so that two workers never write to one cache line and vectors are aligned.
	lineSize = 64
)

// acquire returns n bytes above the top of the stack.
func (a *arena) acquire(n int) (unsafe.Pointer, *chunk, error) {
	n = max(1, (n+lineSize-1)/lineSize) * lineSize
	for ; a.top < len(a.chunks); a.top++ {
		if c := a.chunks[a.top]; len(c.mem)-c.used >= n {
			break
		}
	}
	if a.top == len(a.chunks) {
		c, err := newChunk(max(minChunk, n, a.nextChunk, a.capacity()))
		if err != nil {
			return nil, nil, err
		}
		a.chunks, a.nextChunk = append(a.chunks, c), 0
	}
	c := a.chunks[a.top]
	p := unsafe.Pointer(&c.mem[c.used])
	c.used += n
	a.used += n
	a.peak, a.maxUsed = max(a.peak, a.used), max(a.maxUsed, a.used)
	return p, c, nil
}

// capacity returns the total size of all chunks.
func (a *arena) capacity() (n int) {
	for _, c := range a.chunks {
		n += len(c.mem)
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
		*buf = buffer{freed: true}
		a.live[m.live+i] = nil
	}
	a.live, a.top, a.used = a.live[:m.live], m.top, m.used
}

// release ends the scopes from depth on. At the end of the outermost one the stack is empty: if there are several chunks, or
// one more than twice as large as needed, one chunk of the right size replaces them.
func (a *arena) release(depth int) {
	if depth >= len(a.scopes) {
		return
	}
	a.reset(a.scopes[depth])
	a.scopes = a.scopes[:depth]
	if depth > 0 {
		return
	}
	if len(a.chunks) > 1 || a.capacity() > max(2*a.peak, minChunk) {
		for _, c := range a.chunks {
			c.drop()
		}
		a.nextChunk, a.chunks, a.top = a.peak+a.peak/8, nil, 0
	}
	a.peak = 0
}

// newChunk maps n bytes; they are unmapped when nothing refers to the chunk any more.
func newChunk(n int) (*chunk, error) {
	mem, err := mapMemory(n)
	if err != nil {
		return nil, fmt.Errorf("%d bytes for tensors: %w", n, err)
	}
	c := &chunk{mem: mem}
	c.cleanup = runtime.AddCleanup(c, unmapMemory, mem)
	return c, nil
}

// drop unmaps the memory at once.
func (c *chunk) drop() {
	c.cleanup.Stop()
	unmapMemory(c.mem)
	c.mem = nil
}

// Alloc returns an uninitialised tensor that lives until the current scope ends or, if no scope is open, as long as it is used.
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
	if b.err == nil && n > 0 {
		err = b.allocate(buf, dt, n)
		if err != nil {
			b.fail("alloc: %w", err)
		}
	}
	buf.freed = b.err != nil
	return t
}

// allocate gives buf memory for n elements.
func (b *Backend) allocate(buf *buffer, dt kernels.DType, n int) error {
	var p unsafe.Pointer
	if len(b.arena.scopes) > 0 {
		var err error
		if p, buf.chunk, err = b.arena.acquire(n * dt.Size()); err != nil {
			return err
		}
		b.arena.live = append(b.arena.live, buf)
	} else {
		p = unsafe.Pointer(unsafe.SliceData(make([]float32, (n*dt.Size()+3)/4)))
	}
	buf.set(dt, p, n)
	return nil
}

// set makes buf a buffer of the n elements at p.
func (buf *buffer) set(dt kernels.DType, p unsafe.Pointer, n int) {
	if dt == kernels.F32 {
		buf.f32 = unsafe.Slice((*float32)(p), n)
	} else {
		buf.u16 = unsafe.Slice((*uint16)(p), n)
	}
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
			a.release(depth)
		}
	}
}

// Peak returns the largest number of bytes that tensors used at one time since the last call. Tensors outside all scopes do not
// count.
func (b *Backend) Peak() int64 {
	peak := b.arena.maxUsed
	b.arena.maxUsed = b.arena.used
	return int64(peak)
}
