//go:build cuda && linux

package cuda

import (
	"strings"
	"testing"

	"gorgonia.org/cu"

	"latentbeam/kernels"
)

// TestParts: an operand with too many elements for one launch is divided into parts, which together are the whole operand.
func TestParts(t *testing.T) {
	for _, dims := range [][]int{{3, 1 << 30, 2}, {1 << 31}, {5, 1 << 29, 1}, {1<<31 - 1}, {7, 0, 3}, {}} {
		o := &operand{Tensor: kernels.NewTensor(kernels.BF16, nil, dims...), ptr: 1 << 40}
		pieces := parts(o, o)
		n := 0
		for i, part := range pieces {
			p := part[1]
			n += p.Len()
			if p.Len() > maxElementsPerLaunch || len(part) != 2 {
				t.Errorf("shape %v: a part of shape %v is too large for one launch", dims, p.Shape)
			}
			if before := o.ptr + cu.DevicePtr(2*(n-p.Len())); len(dims) == 1 && p.ptr != before {
				t.Errorf("shape %v: part %d begins at %d, but the one before it ends at %d", dims, i, p.ptr, before)
			}
		}
		if n != o.Len() {
			t.Errorf("shape %v: the parts have %d elements, want %d", dims, n, o.Len())
		}
	}
}

// TestTooManyRows: an operand with 2^31 rows that cannot be divided gives an error, because a kernel counts rows in 32 bits.
func TestTooManyRows(t *testing.T) {
	const rows = 1 << 31
	for name, call := range map[string]func(b kernels.Backend, x, w kernels.Tensor){
		"linear": func(b kernels.Backend, x, w kernels.Tensor) { b.Linear(x, x, w, kernels.Epilogue{}) },
		"norm": func(b kernels.Backend, x, _ kernels.Tensor) {
			b.Norm(x, x, kernels.NormSpec{Kind: kernels.LayerNorm, Eps: 1e-6})
		},
		"group norm": func(b kernels.Backend, x, _ kernels.Tensor) {
			x = x.Reshape(1, rows, 1, 8)
			b.Norm(x, x, kernels.NormSpec{Kind: kernels.GroupNorm, Groups: 2, Eps: 1e-6})
		},
		"conv": func(b kernels.Backend, x, w kernels.Tensor) {
			x = x.Reshape(1, rows, 1, 8)
			b.Conv(x, x, w.Reshape(8, 8, 1, 1), kernels.ConvSpec{})
		},
		"attention": func(b kernels.Backend, x, _ kernels.Tensor) {
			x = x.Reshape(1<<18, 1<<6, 1<<7, 8)
			b.Attention(x, x, x, x, kernels.AttentionSpec{Scale: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := New(0, Options{})
			if err != nil {
				t.Skip(err)
			}
			defer b.Scope()()
			x, w := b.Alloc(kernels.F32, 1, 8), b.Alloc(kernels.F32, 8, 8)
			call(b, x.Expand(rows, 8), w)
			if err := b.Wait(); err == nil || !strings.Contains(err.Error(), "a kernel counts to") {
				t.Errorf("got error %v, want that a kernel cannot count so far", err)
			}
		})
	}
}

// TestTooManyBlocks: a launch that no device accepts gives an error with the limits, before the driver is called.
func TestTooManyBlocks(t *testing.T) {
	b, err := New(0, Options{})
	if err != nil {
		t.Skip(err)
	}
	defer b.Scope()()
	const images = maxGridYZ + 1
	x := b.Alloc(kernels.F32, 1, 8).Expand(images, 8).Reshape(images, 1, 1, 8)
	b.Norm(x, x, kernels.NormSpec{Kind: kernels.GroupNorm, Groups: 2, Eps: 1e-6})
	if err := b.Wait(); err == nil || !strings.Contains(err.Error(), "1 x 65536 x 1 blocks") &&
		!strings.Contains(err.Error(), "2 x 65536 x 1 blocks") {
		t.Errorf("got error %v, want the number of blocks", err)
	}
}
