package cpu

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Weights are usually packed on the fly: the mapped file stays the only copy, and packing a panel takes about 1 % of the time
// that multiplying a thousand rows by it takes. With few rows the share is far greater. So small weights are packed at their
// first use and cached with the weight, as long as all of them together stay below maxPackedTotal. A large model soon reaches the
// limit, but it has many rows and needs the cache least.
const (
	maxPackedSize  = 4 << 20   // greatest size of a cached packed matrix, in bytes
	maxPackedTotal = 256 << 20 // limit of all cached bytes in the process; the taps of convolutions count too
)

var packedTotal atomic.Int64

// packedList holds the packed forms of one weight.
type packedList struct {
	mu   sync.Mutex
	list []*packedMatrix
}

// packedMatrix is one part of a weight, packed as panels of one tier.
type packedMatrix struct {
	packedKey
	mem []byte
}

// packedKey identifies a part of a weight and how it is summed.
type packedKey struct {
	tier           *tier
	dot            dot
	offset, stride int // elements
	n, k           int
	taps           [3]int   // set for a convolution
	int8           *int8Set // set for 8-bit numbers
	parts          uint64   // hashBorders of the parts of the sum
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

// get returns the entry of key. The first call makes it with fill; it returns nil if all entries in the process would then
// exceed limit.
func (l *packedList) get(key packedKey, size int, limit int64, fill func(p unsafe.Pointer)) unsafe.Pointer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.find(key); p != nil { // another backend made it first
		return p
	}
	counted := int64(size)
	if key.int8 != nil { // it replaces the weight, and the plan counts its memory
		counted = 0
	}
	if packedTotal.Add(counted) > limit {
		packedTotal.Add(-counted)
		return nil
	}
	mem, err := mapMemory(size)
	if err != nil {
		packedTotal.Add(-counted)
		return nil // the caller uses the weight unpacked
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

// packedWeight returns w (N, K) packed for g if that form is cached, else nil.
func (b *Backend) packedWeight(op string, g *gemm, w *view, size int) unsafe.Pointer {
	if w.buf.weight == nil || size > b.maxCachedWeight || w.buf.weight.passing.Load() {
		return nil
	}
	key := packedKey{tier: g.tier, dot: g.dot, offset: w.Offset, stride: w.Strides[0], n: w.Shape[0], k: w.Shape[1], parts: g.borders}
	if p := w.buf.weight.lookup(key); p != nil {
		return p
	}
	return w.buf.weight.get(key, size, b.maxCachedTotal, func(p unsafe.Pointer) { b.packAll(op, g, p) })
}
