//go:build cuda && linux

package gpus

import (
	"errors"
	"os"
	"slices"
	"testing"

	"latentbeam/internal/devices"
	"latentbeam/kernels"
)

// TestCUDA leases the devices that kernels/cuda shows, of the fake driver in kernels/cuda/fake or real GPUs. A product has the same bytes on
// all of them. On the fake driver, a device whose kernel failed works again in the next lease.
func TestCUDA(t *testing.T) {
	p, err := Open(nil, CUDA(0), Options{Claims: t.TempDir()})
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	set, release, err := p.LeaseSet(t.Context(), p.Size())
	if err != nil {
		t.Fatal(err)
	}
	want := product(t, set.Devices[0])
	for _, dev := range set.Devices[1:] {
		if got := product(t, dev); !slices.Equal(got, want) {
			t.Errorf("the product on %s has other bytes than on %s", dev.Device(), set.Devices[0].Device())
		}
	}
	if set.Connect != nil {
		if ends, err := set.Connect(t.Context()); err != nil || len(ends) != set.Ranks() {
			t.Errorf("Connect gave %d transports, %v; want %d", len(ends), err, set.Ranks())
		}
	}
	release(true)
	if os.Getenv("LATENTBEAM_LIBCUDA") == "" {
		return // real devices are not broken on purpose
	}
	dev, release, err := devices.Lease(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKE_FAIL", "cuStreamSynchronize:1:700!") // 700 is CUDA_ERROR_ILLEGAL_ADDRESS: a kernel broke the context
	func() {
		defer dev.Scope()()
		dev.Upload(dev.Alloc(kernels.F32, 4), make([]float32, 4))
	}()
	if dev.Wait() == nil {
		t.Fatal("the fake driver did not fail")
	}
	os.Unsetenv("FAKE_FAIL")
	release(false)
	for range p.Size() { // lease all devices, so that the failed one is among them
		dev, release, err := devices.Lease(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		defer release(true)
		if got := product(t, dev); !slices.Equal(got, want) {
			t.Errorf("after the failure, the product on %s has other bytes", dev.Device())
		}
	}
	if f := p.Facts().(UsageFacts); f.Devices[0].Drained != "" {
		t.Errorf("device 0 was drained: %s", f.Devices[0].Drained)
	}
}

// product returns the product of two small matrices, computed on a device.
func product(t *testing.T, be kernels.Backend) []float32 {
	t.Helper()
	const n = 32
	defer be.Scope()()
	x, w, y := be.Alloc(kernels.F32, n, n), be.Alloc(kernels.F32, n, n), be.Alloc(kernels.F32, n, n)
	a := make([]float32, n*n)
	for i := range a {
		a[i] = float32(i%11) / 11
	}
	be.Upload(x, a)
	be.Upload(w, a)
	be.Linear(y, x, w, kernels.Epilogue{})
	out := make([]float32, n*n)
	if err := be.Download(out, y); err != nil {
		t.Fatal(err)
	}
	return out
}
