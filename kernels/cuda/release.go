//go:build cuda && linux

package cuda

import "latentbeam/kernels"

// Release frees the memory of a weight and of its packed forms.
func (b *Backend) Release(t kernels.Tensor) {
	if buf, ok := t.Buf.(*buffer); ok && buf.weight {
		buf.release()
	}
}

// release frees the memory of an allocation, once.
func (buf *buffer) release() {
	buf.mu.Lock()
	packed, done := buf.packed, buf.freed
	buf.packed, buf.freed = nil, true
	buf.mu.Unlock()
	if done {
		return
	}
	for _, o := range packed {
		o.buf.release()
	}
	if buf.ptr != 0 {
		buf.cleanup.Stop()
		buf.eng.free(buf.ptr)
	}
}
