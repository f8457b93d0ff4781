package cpu_test

import (
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/kerneltest"
)

// TestDeferredFindsMistakes: Deferred computes when a result is needed. It shows mistakes of code that works by chance on a backend that
// computes at once.
func TestDeferredFindsMistakes(t *testing.T) {
	download := func(b kernels.Backend, x kernels.Tensor) ([]float32, error) {
		got := make([]float32, x.Len())
		return got, b.Download(got, x)
	}
	t.Run("unwritten memory", func(t *testing.T) {
		b := kerneltest.Deferred(cpu.New(1))
		got, err := download(b, b.Alloc(kernels.F32, 3))
		if err != nil || got[0] == got[0] {
			t.Errorf("fresh memory holds %v, %v, want NaN", got, err)
		}
	})
	t.Run("use after the scope", func(t *testing.T) {
		b := kerneltest.Deferred(cpu.New(1))
		end := b.Scope()
		x := b.Alloc(kernels.F32, 3)
		end()
		y := b.Alloc(kernels.F32, 3)
		b.Copy(y, x.Narrow(0, 0, 3))
		if _, err := download(b, y); err == nil || !strings.HasPrefix(err.Error(), "deferred: copy: operand 1") {
			t.Errorf("got error %v, want one about operand 1 of the copy", err)
		}
	})
	t.Run("another backend's tensor", func(t *testing.T) {
		a, b := kerneltest.Deferred(cpu.New(1)), kerneltest.Deferred(cpu.New(1))
		b.Copy(b.Alloc(kernels.F32, 3), a.Alloc(kernels.F32, 3))
		if b.Wait() == nil {
			t.Error("a copy from a tensor of another backend gave no error")
		}
	})
	t.Run("nothing happens early", func(t *testing.T) {
		inner := cpu.New(1)
		b := kerneltest.Deferred(inner)
		b.Copy(b.Alloc(kernels.F32, 3), b.Alloc(kernels.F32, 4))
		if err := inner.Wait(); err != nil {
			t.Errorf("the copy to another shape gave the error %v before Wait", err)
		}
		if b.Wait() == nil {
			t.Error("the copy to another shape gave no error")
		}
	})
}
