package kernels

import (
	"slices"
	"testing"
)

// TestViews: shape, strides and offset of views of a tensor of shape (2, 3, 4).
func TestViews(t *testing.T) {
	x := NewTensor(F32, "buf", 2, 3, 4)
	for _, c := range []struct {
		name    string
		got     Tensor
		shape   []int
		strides []int
		offset  int
	}{
		{"contiguous", x, []int{2, 3, 4}, []int{12, 4, 1}, 0},
		{"merge", x.Reshape(6, 4), []int{6, 4}, []int{4, 1}, 0},
		{"split", x.Reshape(2, 3, 2, 2), []int{2, 3, 2, 2}, []int{12, 4, 2, 1}, 0},
		{"across", x.Reshape(4, 6), []int{4, 6}, []int{6, 1}, 0},
		{"narrow", x.Narrow(1, 1, 2), []int{2, 2, 4}, []int{12, 4, 1}, 4},
		{"split a narrowed axis", x.Narrow(2, 2, 2).Reshape(2, 3, 1, 2), []int{2, 3, 1, 2}, []int{12, 4, 2, 1}, 2},
		{"merge leading axes of a narrowed view", x.Narrow(2, 0, 2).Reshape(6, 2), []int{6, 2}, []int{4, 1}, 0},
		{"index", x.Index(1), []int{3, 4}, []int{4, 1}, 12},
		{"permute", x.Permute(1, 0, 2), []int{3, 2, 4}, []int{4, 12, 1}, 0},
		{"expand", x.Index(1).Reshape(3, 1, 4).Expand(5, 3, 7, 4), []int{5, 3, 7, 4}, []int{0, 4, 0, 1}, 12},
		{"reshape an empty view", x.Narrow(1, 3, 0).Reshape(0, 5), []int{0, 5}, []int{5, 1}, 12},
	} {
		if !slices.Equal(c.got.Shape, c.shape) || c.got.Offset != c.offset {
			t.Errorf("%s: got shape %v, offset %d; want %v, %d", c.name, c.got.Shape, c.got.Offset, c.shape, c.offset)
		}
		for i, d := range c.shape { // the stride of an axis of size 1 does not matter
			if d != 1 && c.got.Strides[i] != c.strides[i] {
				t.Errorf("%s: got strides %v, want %v", c.name, c.got.Strides, c.strides)
			}
		}
	}
	if x.Permute(1, 0, 2).Contiguous() || !x.Narrow(0, 1, 1).Contiguous() {
		t.Error("Contiguous is wrong about a permuted or a narrowed view")
	}
}

// TestImpossibleViewsPanic: a view that does not fit its tensor panics.
func TestImpossibleViewsPanic(t *testing.T) {
	x := NewTensor(F32, "buf", 2, 3, 4)
	for name, f := range map[string]func(){
		"reshape to another length":    func() { x.Reshape(5, 5) },
		"reshape across a permutation": func() { x.Permute(1, 0, 2).Reshape(6, 4) },
		"merge around a narrowed axis": func() { x.Narrow(1, 0, 2).Reshape(16) },
		"narrow past the end":          func() { x.Narrow(1, 2, 2) },
		"expand an axis that is not 1": func() { x.Expand(2, 6, 4) },
		"permute with too few axes":    func() { x.Permute(0, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			f()
		}()
	}
}
