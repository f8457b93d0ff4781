package kerneltest

import (
	"testing"

	"latentbeam/kernels"
)

// testPeers: a backend copies from a strided tensor of another backend after Wait on that backend, as the ranks of a
// group do.
func testPeers(t *testing.T, newBackend func(int) kernels.Backend) {
	from, to := newFixture(t, newBackend(1)), newFixture(t, newBackend(1))
	defer from.Scope()()
	defer to.Scope()()
	for _, dt := range dtypes {
		src := from.Alloc(dt, 4, 6)
		values := make([]float32, src.Len())
		for i := range values {
			values[i] = float32(i)
		}
		from.Upload(src, values)
		if err := from.Wait(); err != nil {
			t.Fatal(err)
		}
		dst := to.Alloc(dt, 5, 4)
		to.Upload(dst, make([]float32, dst.Len()))
		to.Copy(dst.Narrow(0, 1, 2).Narrow(1, 2, 2), src.Narrow(0, 1, 2).Narrow(1, 3, 2))
		got := make([]float32, dst.Len())
		if err := to.Download(got, dst); err != nil {
			t.Fatal(err)
		}
		for i, x := range got {
			want := float32(0)
			if row, col := i/4, i%4; row >= 1 && row < 3 && col >= 2 {
				want = values[row*6+3+col-2]
			}
			if x != want {
				t.Errorf("%v: element %d is %v, want %v", dt, i, x, want)
			}
		}
	}
}
