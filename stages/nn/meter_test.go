package nn

import (
	"testing"

	"latentbeam/kernels"
)

func TestWork(t *testing.T) {
	work, calls, err := Work(func(be kernels.Backend) error {
		alloc := func(shape ...int) kernels.Tensor { return be.Alloc(kernels.F32, shape...) }
		be.Linear(alloc(2, 5, 7), alloc(2, 5, 3), alloc(7, 3), kernels.Epilogue{})                                        // 2*70*3
		be.Attention(alloc(2, 4, 3, 8), alloc(2, 4, 3, 8), alloc(2, 6, 3, 8), alloc(2, 6, 3, 8), kernels.AttentionSpec{}) // 4*192*6
		be.Attention(alloc(2, 4, 3, 8), alloc(2, 4, 3, 8), alloc(2, 6, 3, 8), alloc(2, 6, 3, 8),
			kernels.AttentionSpec{KeyLens: []int{1, 3}}) // 4*192*2
		be.Conv(alloc(1, 4, 4, 5), alloc(1, 4, 4, 2), alloc(5, 2, 3, 3), kernels.ConvSpec{}) // 2*80*18
		return nil
	})
	if want := float64(2*70*3 + 4*192*6 + 4*192*2 + 2*80*18); err != nil || work != want || calls != 4 {
		t.Errorf("%g FLOP in %d calls, %v, want %g in 4", work, calls, err, want)
	}
}
