package nn

import (
	"errors"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages/cost"
)

func TestWork(t *testing.T) {
	work, err := Work(func(be kernels.Backend) error {
		half := be.Alloc(kernels.BF16, 1, 1)
		be.Copy(half, half)
		be.Linear(half, half, half, kernels.Epilogue{})           // 2
		be.Linear(half, half, half, kernels.Epilogue{Int8: true}) // 2
		alloc := func(shape ...int) kernels.Tensor { return be.Alloc(kernels.F32, shape...) }
		be.Linear(alloc(2, 5, 7), alloc(2, 5, 3), alloc(7, 3), kernels.Epilogue{})                                        // 2*70*3
		be.Attention(alloc(2, 4, 3, 8), alloc(2, 4, 3, 8), alloc(2, 6, 3, 8), alloc(2, 6, 3, 8), kernels.AttentionSpec{}) // 4*192*6
		be.Attention(alloc(2, 4, 3, 8), alloc(2, 4, 3, 8), alloc(2, 6, 3, 8), alloc(2, 6, 3, 8),
			kernels.AttentionSpec{KeyLens: []int{1, 3}}) // 4*192*2
		be.Conv(alloc(1, 4, 4, 5), alloc(1, 4, 4, 2), alloc(5, 2, 3, 3), kernels.ConvSpec{}) // 2*80*18
		return nil
	})
	want := cost.Kernels{Calls: 7, Elements: 2}
	want.Products[kernels.OpLinear][kernels.F32] = cost.Product{FLOP: 2 * 70 * 3, Elements: 70 + 30 + 21}
	want.Products[kernels.OpLinear][kernels.BF16] = cost.Product{FLOP: 2, Elements: 3}
	want.Products[kernels.OpLinear][kernels.Int8] = cost.Product{FLOP: 2, Elements: 3}
	want.Products[kernels.OpAttention][kernels.F32] = cost.Product{FLOP: 4*192*6 + 4*192*2, Elements: 2 * (2*192 + 2*288)}
	want.Products[kernels.OpConv][kernels.F32] = cost.Product{FLOP: 2 * 80 * 18, Elements: 80 + 32 + 90}
	if err != nil || work != want {
		t.Errorf("%+v, %v, want %+v", work, err, want)
	}
}

// TestRehearsals: a rehearsal runs once for each key, failed ones again.
func TestRehearsals(t *testing.T) {
	var known Rehearsals
	runs := 0
	of := func(key any, err error) Rehearsal {
		got, failed := known.Of(key, func(be kernels.Backend) error {
			runs++
			be.Alloc(kernels.F32, 5)
			return err
		})
		if !errors.Is(failed, err) {
			t.Errorf("%v, want %v", failed, err)
		}
		return got
	}
	if a, b := of(1, nil), of(1, nil); a != b || a.Bytes != 20 || runs != 1 {
		t.Errorf("%+v, then %+v, in %d runs", a, b, runs)
	}
	of(2, errors.ErrUnsupported)
	of(2, nil)
	if runs != 3 {
		t.Errorf("%d runs of three", runs)
	}
}
