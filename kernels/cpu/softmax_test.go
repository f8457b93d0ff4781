package cpu

import (
	"testing"
	"unsafe"
)

// TestSoftmaxFields: the assembly knows where the fields are.
func TestSoftmaxFields(t *testing.T) {
	var s softmax
	for i, off := range []uintptr{
		unsafe.Offsetof(s.scores), unsafe.Offsetof(s.stride), unsafe.Offsetof(s.weights),
		unsafe.Offsetof(s.weightStride), unsafe.Offsetof(s.rows), unsafe.Offsetof(s.keys), unsafe.Offsetof(s.top),
		unsafe.Offsetof(s.sum), unsafe.Offsetof(s.rescale), unsafe.Offsetof(s.scale),
	} {
		if off != uintptr(8*i) {
			t.Errorf("field %d is at %d", i, off)
		}
	}
}

// TestShortFields: the same for attention over few keys.
func TestShortFields(t *testing.T) {
	var s shortValues
	for i, off := range []uintptr{
		unsafe.Offsetof(s.dst), unsafe.Offsetof(s.dstStride), unsafe.Offsetof(s.weights),
		unsafe.Offsetof(s.values), unsafe.Offsetof(s.valueStride), unsafe.Offsetof(s.terms),
		unsafe.Offsetof(s.queries), unsafe.Offsetof(s.columns),
	} {
		if off != uintptr(8*i) {
			t.Errorf("field %d is at %d", i, off)
		}
	}
}
