//go:build cuda && linux

package cuda_test

import (
	"errors"
	"os"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/kernels/kerneltest"
)

// device returns a new backend on device index, or on device 0 if there are fewer. Without a driver the test is skipped,
// unless LATENTBEAM_LIBCUDA names one.
func device(t testing.TB, index int) kernels.Backend {
	t.Helper()
	list, err := cuda.Devices()
	if errors.Is(err, cuda.ErrUnavailable) && os.Getenv("LATENTBEAM_LIBCUDA") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := cuda.New(index%len(list), cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSuite runs the suite of all backends on the first device.
func TestSuite(t *testing.T) {
	device(t, 0)
	kerneltest.Run(t, func(int) kernels.Backend { return device(t, 0) })
}
