//go:build cuda && linux

package transport

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/kernels/cuda/nccl"
)

// mostRanks is the largest group of the suite, whose ranks are on as many devices.
const mostRanks = 17

// standIn makes the stand-in driver show n devices; without one the test is skipped.
func standIn(t *testing.T, n string) {
	t.Helper()
	t.Setenv("FAKE_DEVICES", n)
	if _, err := cuda.Devices(); errors.Is(err, cuda.ErrUnavailable) && os.Getenv("LATENTBEAM_LIBCUDA") == "" {
		t.Skip(err)
	}
	if _, err := nccl.Open(); err != nil {
		t.Fatal(err)
	}
}

// gpu returns a new backend.
func gpu(t testing.TB, index int) kernels.Backend {
	t.Helper()
	be, err := cuda.New(index, cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return be
}

// overNCCL returns the ends of ranks whose devices are linked by NCCL, each few on a node of their own.
func overNCCL(each int) carrier {
	return func(t testing.TB, devices []kernels.Backend) []kernels.Transport {
		ends := joined(t, devices, each, true)
		for _, e := range ends {
			if w := e.(*withNode); len(devices) > 1 && w.node.Links().Linked == 0 {
				t.Fatalf("not linked: %v", w.node.Links().Why)
			}
		}
		return ends
	}
}

// onDevices runs f on emulated GPUs that are linked by the stand-in for NCCL.
func onDevices(t *testing.T, f func(t *testing.T, s suite)) {
	t.Run("nccl", func(t *testing.T) {
		standIn(t, "17")
		for i := range mostRanks { // the threads of devices stay
			gpu(t, i)
		}
		before := runtime.NumGoroutine()
		f(t, suite{overNCCL(2), func(rank int) kernels.Backend { return gpu(t, rank) }, patience})
		checkGoroutines(t, before)
	})
}
