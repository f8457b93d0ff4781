package cpu

import (
	"testing"
	"time"

	"latentbeam/kernels"
)

// TestPrefetchFollowsTheOrderOfUse: prefetching first follows the order of loading, then the order of use.
func TestPrefetchFollowsTheOrderOfUse(t *testing.T) {
	const n, k = 1024, 512
	b := New(1)
	b.maxCachedWeight = 0
	var weights [3]kernels.Tensor
	for i := range weights {
		w, err := b.Weights(kernels.F32, []int{n, k}, make([]byte, n*k*4))
		if err != nil {
			t.Fatal(err)
		}
		weights[i] = w
	}
	x, y := filled(b, kernels.F32, 1, k), b.Alloc(kernels.F32, 1, n)
	buf := func(i int) *buffer { return weights[i].Buf.(*buffer) }
	use := func(order ...int) {
		for _, i := range order {
			b.Linear(y, x, weights[i], kernels.Epilogue{})
		}
	}
	if buf(0).weight.nextWeight.Value() != buf(1) || buf(1).weight.nextWeight.Value() != buf(2) {
		t.Error("loading does not say what comes next")
	}
	use(0)
	if buf(1).weight.requested.IsZero() || !buf(2).weight.requested.IsZero() {
		t.Error("the use of weight 0 asks for weight 1, and for no other")
	}
	use(2, 1, 0, 2, 1)
	if buf(0).weight.nextWeight.Value() != buf(2) || buf(2).weight.nextWeight.Value() != buf(1) || buf(1).weight.nextWeight.Value() != buf(0) {
		t.Error("the order of use was not learned")
	}
	buf(0).weight.requested = time.Now().Add(-2 * prefetchPause)
	before := time.Now()
	use(1)
	if !buf(0).weight.requested.After(before) {
		t.Error("a weight that was used long ago is not asked for again")
	}
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
}
