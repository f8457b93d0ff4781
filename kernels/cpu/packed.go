package cpu

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Weights are packed on the fly as a rule: the mapped file stays the only copy, and packing a panel takes
// about 1 % of multiplying a thousand rows by it. It takes far more where rows are few. So what small
// weights become is kept with them, packed at their first use, as long as all of it stays below
// packedLimit; the weights of a large model soon pass that, and its many rows need it least.
const (
	packedMost  = 4 << 20   // bytes of a matrix that is kept packed, at most
	packedLimit = 256 << 20 // bytes of all of them in the process; the taps of convolutions count too
)

var packedTotal atomic.Int64

// packedList is what was made of one weight.
type packedList struct {
	mu   sync.Mutex
	list []*packedMatrix
}

// packedMatrix is one part of a weight as one tier's panels.
type packedMatrix struct {
	packedKey
	mem []byte
}

// packedKey says which part of a weight, and how it is summed.
type packedKey struct {
	tier           *tier
	dot            dot
	offset, stride int // elements
	n, k           int
	taps           [3]int   // of a convolution
	int8           *int8Set // of 8-bit numbers
	parts          uint64   // what tells apart where the parts of the sum begin
}

// lookup returns the entry of key, or nil.
func (l *packedList) lookup(key packedKey) unsafe.Pointer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.find(key)
}

func (l *packedList) find(key packedKey) unsafe.Pointer {
	for _, p := range l.list {
		if p.packedKey == key {
			return unsafe.Pointer(unsafe.SliceData(p.mem))
		}
	}
	return nil
}

// get returns the entry of key, which fill makes the first time; nil where that would be more than limit of
// all entries in the process.
func (l *packedList) get(key packedKey, size int, limit int64, fill func(p unsafe.Pointer)) unsafe.Pointer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.find(key); p != nil { // another backend was faster
		return p
	}
	counted := int64(size)
	if key.int8 != nil { // it takes the place of the weight, and the plan knows
		counted = 0
	}
	if packedTotal.Add(counted) > limit {
		packedTotal.Add(-counted)
		return nil
	}
	mem, err := mapMemory(size)
	if err != nil {
		packedTotal.Add(-counted)
		return nil // the weight is used as it lies
	}
	p := &packedMatrix{key, mem}
	runtime.AddCleanup(p, func(mem []byte) {
		packedTotal.Add(-counted)
		unmapMemory(mem)
	}, mem)
	l.list = append(slices.Clip(l.list), p)
	fill(unsafe.Pointer(unsafe.SliceData(mem)))
	return unsafe.Pointer(unsafe.SliceData(mem))
}

// packedWeight returns w (N, K) packed for g where that is kept, else nil.
func (b *Backend) packedWeight(op string, g *gemm, w *view, size int) unsafe.Pointer {
	if w.buf.weight == nil || size > b.keep || w.buf.weight.passing.Load() {
		return nil
	}
	key := packedKey{tier: g.tier, dot: g.dot, offset: w.Offset, stride: w.Strides[0], n: w.Shape[0], k: w.Shape[1], parts: g.borders}
	if p := w.buf.weight.lookup(key); p != nil {
		return p
	}
	return w.buf.weight.get(key, size, b.keepAll, func(p unsafe.Pointer) { b.packAll(op, g, p) })
}
