package kerneltest

import (
	"testing"

	"latentbeam/kernels"
)

// testScopes: tensors of an outer scope survive inner scopes, whose memory is reused.
func testScopes(t *testing.T, newBackend func(int) kernels.Backend) {
	f := newFixture(t, newBackend(2))
	outer := f.Scope()
	total := f.Alloc(kernels.F32, 100)
	f.Upload(total, make([]float32, 100))
	one := f.operand(kernels.F32, dense, array{[]int{1}, []float64{1}}).Expand(100)
	for range 20 {
		end := f.Scope()
		x := f.Alloc(kernels.F32, 100)
		f.Copy(x, one)
		func() {
			defer f.Scope()()
			y := f.Alloc(kernels.BF16, 200)
			f.Copy(y.Narrow(0, 100, 100), x)
			f.Binary(x, x, y.Narrow(0, 100, 100), kernels.Add)
		}()
		late := f.Alloc(kernels.F32, 100) // after the inner scope, so it belongs to this one
		f.Copy(late, x)
		f.Binary(total, total, late, kernels.Add)
		end()
		end() // calling end twice does nothing
	}
	got := make([]float32, 100)
	if err := f.Download(got, total); err != nil {
		t.Fatal(err)
	}
	for i, x := range got {
		if x != 40 {
			t.Fatalf("element %d is %v, want 40", i, x)
		}
	}
	f.Scope()
	f.Alloc(kernels.F32, 10)
	outer() // also ends the scope inside it
	end := f.Scope()
	empty := f.Alloc(kernels.F32, 0, 3)
	f.Copy(empty, empty)
	end()
	if err := f.Wait(); err != nil {
		t.Fatal(err)
	}
}
