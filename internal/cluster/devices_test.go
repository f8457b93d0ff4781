//go:build cuda && linux

package cluster

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/kernels/cuda/nccl"
)

const (
	mostRanks = 17        // size of the largest group of the suite
	strangers = mostRanks // first of two devices that cannot access each other's memory
)

// standIn makes the fake driver show n devices. Without a driver, the test is skipped.
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

// gpu returns a new backend of the device with an index.
func gpu(t testing.TB, index int) kernels.Backend {
	t.Helper()
	be, err := cuda.New(index, cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return be
}

// overNCCL returns a carrier that links devices by NCCL. Each node has the given number of ranks.
func overNCCL(each int) carrier {
	return func(t testing.TB, devices []kernels.Backend) []kernels.Transport {
		ends := joined(t, devices, each, true)
		for _, e := range ends {
			if w := e.(*withNode); len(devices) > 1 && w.node.Links().Linked == 0 {
				t.Fatalf("the ranks are not linked by NCCL: %v", w.node.Links().Why)
			}
		}
		return ends
	}
}

// onDevices runs f on emulated GPUs: linked by a fake of NCCL, over TCP, and in one process. There, a rank reads from another device, from its
// own device, or from a device whose memory it cannot access.
func onDevices(t *testing.T, f func(t *testing.T, s suite)) {
	for name, c := range map[string]struct {
		carrier carrier
		device  func(rank int) int
	}{
		"nccl":       {overNCCL(2), func(rank int) int { return rank }},
		"tcp":        {carriers()["mixed"], func(rank int) int { return rank % 2 }},
		"shared":     {carriers()["shared"], func(rank int) int { return rank % 3 }},
		"one device": {carriers()["shared"], func(int) int { return 0 }},
		"strangers":  {carriers()["shared"], func(rank int) int { return strangers + rank%2 }},
	} {
		t.Run("cuda/"+name, func(t *testing.T) {
			standIn(t, "19")
			if name == "strangers" {
				t.Setenv("FAKE_PEERS", "0")
			}
			for i := range mostRanks + 2 { // start the threads of all devices now, because they never end
				gpu(t, i)
			}
			before := runtime.NumGoroutine()
			f(t, suite{c.carrier, func(rank int) kernels.Backend { return gpu(t, c.device(rank)) }, patience})
			checkGoroutines(t, before)
		})
	}
}
