//go:build cuda && linux

package cuda_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"latentbeam/kernels/cuda"
	"latentbeam/schemas/fault"
)

// TestHang: if a call of the driver does not return, everything that waits for its device gets an error within the time limit. Other
// devices continue. When the call returns after all, the device can be opened again.
func TestHang(t *testing.T) {
	onFake(t)
	// within is far longer than any call on a busy machine. The test ends the hang.
	const within, hang = 10 * time.Second, 5 * time.Minute
	if err := work(fresh(t, 0, cuda.Options{})); err != nil { // kernels are loaded
		t.Fatal(err)
	}
	for _, call := range []string{"cuStreamSynchronize", "cuLaunchKernel"} {
		t.Run(call, func(t *testing.T) {
			t.Setenv(cuda.EnvPatience, within.String())
			again(t)
			b, other, far := fresh(t, 0, cuda.Options{}), fresh(t, 0, cuda.Options{}), fresh(t, 1, cuda.Options{})
			t.Setenv("FAKE_FAIL", fmt.Sprintf("%s:1:~%d", call, hang.Milliseconds()))
			began := time.Now()
			waits := make(chan error, 2)
			go func() { waits <- uploadAndWork(b) }()
			go func() { waits <- uploadAndWork(other) }()
			for range 2 {
				err := <-waits
				if !fault.IsDeviceLost(err) || fault.ClassOf(err) != fault.ClassRetry ||
					!strings.Contains(err.Error(), "has not answered") {
					t.Fatalf("error %v", err)
				}
			}
			if took := time.Since(began); took < within/2 {
				t.Errorf("the error came after %v", took)
			}
			if err := work(far); err != nil {
				t.Errorf("another device answers %v", err)
			}
			if _, err := cuda.New(0, cuda.Options{}); !fault.IsDeviceLost(err) {
				t.Errorf("opened while it does not answer: %v", err)
			}
			t.Setenv("FAKE_FAIL", "")
			next, err := cuda.New(0, cuda.Options{})
			for back := time.Now(); err != nil && time.Since(back) < time.Minute; next, err = cuda.New(0, cuda.Options{}) {
				time.Sleep(10 * time.Millisecond)
			}
			if err != nil {
				t.Fatalf("the call has come back: %v", err)
			}
			if err := work(next); err != nil || next.Device() == b.Device() {
				t.Errorf("%s after %s: %v", next.Device(), b.Device(), err)
			}
			t.Setenv(cuda.EnvPatience, "") // other tests need more
			again(t)
			fresh(t, 0, cuda.Options{})
		})
	}
}

// again makes a new engine for device 0, which reads the environment again.
func again(t *testing.T) {
	t.Helper()
	t.Setenv("FAKE_FAIL", "cuStreamSynchronize:1:700!")
	if err := work(fresh(t, 0, cuda.Options{})); err == nil {
		t.Fatal("no error")
	}
	t.Setenv("FAKE_FAIL", "")
}

// TestPatience: opening a device fails if the variable is not a valid time.
func TestPatience(t *testing.T) {
	onFake(t)
	t.Setenv(cuda.EnvPatience, "soon")
	again(t)
	if _, err := cuda.New(0, cuda.Options{}); err == nil || !strings.Contains(err.Error(), "LATENTBEAM_CUDA_PATIENCE=soon: give a time") {
		t.Errorf("error %v", err)
	}
}
