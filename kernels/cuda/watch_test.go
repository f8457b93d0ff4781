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

// TestHang: if a call of the driver does not return, all backends of its device get an error after the time limit (LATENTBEAM_CUDA_PATIENCE).
// Other devices continue. When the call returns after all, the device can be opened again.
func TestHang(t *testing.T) {
	onFake(t)
	const (
		within = 10 * time.Second // time limit: far longer than any call on a busy machine
		hang   = 5 * time.Minute  // the test ends the hang earlier
	)
	if err := work(fresh(t, 0, cuda.Options{})); err != nil { // loads the kernels, which takes time
		t.Fatal(err)
	}
	for _, call := range []string{"cuStreamSynchronize", "cuLaunchKernel"} {
		t.Run(call, func(t *testing.T) {
			t.Setenv(cuda.EnvPatience, within.String())
			reopen(t)
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
					t.Fatalf("got error %v, want a lost device", err)
				}
			}
			if took := time.Since(began); took < within/2 {
				t.Errorf("the error came after %v, want about %v", took, within)
			}
			if err := work(far); err != nil {
				t.Errorf("another device: got error %v", err)
			}
			if _, err := cuda.New(0, cuda.Options{}); !fault.IsDeviceLost(err) {
				t.Errorf("New while the device does not answer: got %v, want a lost device", err)
			}
			t.Setenv("FAKE_FAIL", "")
			next, err := cuda.New(0, cuda.Options{})
			for back := time.Now(); err != nil && time.Since(back) < time.Minute; next, err = cuda.New(0, cuda.Options{}) {
				time.Sleep(10 * time.Millisecond)
			}
			if err != nil {
				t.Fatalf("the call has returned, but New gives %v", err)
			}
			if err := work(next); err != nil || next.Device() == b.Device() {
				t.Errorf("the next backend is on %s, %v; want another context than %s", next.Device(), err, b.Device())
			}
			t.Setenv(cuda.EnvPatience, "") // other tests need a longer limit
			reopen(t)
			fresh(t, 0, cuda.Options{})
		})
	}
}

// reopen ends the context of device 0 by an error, so that the next New opens the device again and reads the environment.
func reopen(t *testing.T) {
	t.Helper()
	t.Setenv("FAKE_FAIL", "cuStreamSynchronize:1:700!")
	if err := work(fresh(t, 0, cuda.Options{})); err == nil {
		t.Fatal("the injected error did not come")
	}
	t.Setenv("FAKE_FAIL", "")
}

// TestPatience: opening a device fails if the variable is not a valid time.
func TestPatience(t *testing.T) {
	onFake(t)
	t.Setenv(cuda.EnvPatience, "soon")
	reopen(t)
	if _, err := cuda.New(0, cuda.Options{}); err == nil || !strings.Contains(err.Error(), "LATENTBEAM_CUDA_PATIENCE=soon: give a time") {
		t.Errorf("got error %v, want one about LATENTBEAM_CUDA_PATIENCE", err)
	}
}
