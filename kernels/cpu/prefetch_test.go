package cpu

import (
	"testing"
	"time"

	"latentbeam/kernels"
)

// TestPrefetchFollowsTheOrderOfUse: using a weight makes the backend read the next one from the file in advance. At first the next one is the
// weight that was loaded after it, later the weight that was used after it.
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
		t.Error("after loading, the next weight of 0 is not 1, or the next of 1 is not 2")
	}
	use(0)
	if buf(1).weight.requested.IsZero() || !buf(2).weight.requested.IsZero() {
		t.Error("the use of weight 0 must request weight 1, and no other")
	}
	use(2, 1, 0, 2, 1)
	if buf(0).weight.nextWeight.Value() != buf(2) || buf(2).weight.nextWeight.Value() != buf(1) || buf(1).weight.nextWeight.Value() != buf(0) {
		t.Error("after the uses 2, 1, 0, 2, 1, the next weight of 0 is not 2, of 2 not 1, or of 1 not 0")
	}
	buf(0).weight.requested = time.Now().Add(-2 * prefetchPause)
	before := time.Now()
	use(1)
	if !buf(0).weight.requested.After(before) {
		t.Error("a weight whose last request is long ago was not requested again")
	}
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
}
