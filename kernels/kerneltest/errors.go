package kerneltest

import (
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
)

// testErrors: wrong operands give an error whose text names the operation, and never a panic. The backend keeps the
// first error and ignores the operations after it.
func testErrors(t *testing.T, newBackend func(int) kernels.Backend) {
	all := func(b device, t func(shape ...int) tensor) []mistake {
		return slices.Concat(linearMistakes(b, t), attentionMistakes(b, t), convMistakes(b, t), normMistakes(b, t), otherMistakes(b, t))
	}
	for i, m := range all(nil, nil) {
		t.Run(m.name, func(t *testing.T) {
			b := newBackend(1)
			alloc := func(shape ...int) tensor { return b.Alloc(kernels.F32, shape...) }
			kept := alloc(1)
			b.Upload(kept, []float32{1})
			all(b, alloc)[i].call()
			later := alloc(3, 4)
			if later.Len() != 12 || later.IsZero() {
				t.Errorf("Alloc after an error gives %v", later.Shape)
			}
			b.Copy(later, later)
			err := b.Wait()
			if err == nil {
				t.Fatal("no error")
			}
			if op, _, _ := strings.Cut(m.name, ":"); !strings.Contains(err.Error(), op) {
				t.Errorf("error %q does not name %q", err, op)
			}
			if strings.Contains(err.Error(), "internal error") {
				t.Errorf("%q: the mistake was not checked for, it caused a panic", err)
			}
			got := []float32{7}
			if again := b.Download(got, kept); again == nil || again.Error() != err.Error() {
				t.Errorf("Download after the error gives %v, want %v", again, err)
			}
			b.Gather(later, later, []int32{-1})
			if again := b.Wait(); again == nil || again.Error() != err.Error() {
				t.Errorf("the error became %v, was %v", again, err)
			}
		})
	}
}
