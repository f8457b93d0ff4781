//go:build linux

package vae

import (
	"testing"
	"time"

	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
)

// TestHostShare: the work of the host while 16 frames of 512x512 are decoded with AutoencoderKL. Latents go to the device,
// pixels come back in blocks of 4 MiB, and the host waits for nothing else.
func TestHostShare(t *testing.T) {
	be := nntest.NewIdle(t)
	cfg, err := ParseConfig([]byte(measured["sd"]))
	if err != nil {
		t.Fatal(err)
	}
	m := hashed(t, cfg, be)
	shape := []int{4, 16, 64, 64}
	z := &stages.Array{Shape: shape, Data: nntest.Hash("z", 1, shape...)}
	be.Check(t, nntest.Work{Run: func() {
		if err := m.Decode(be, z, 16, 16, func([]float32) {}); err != nil {
			t.Fatal(err)
		}
	}, Units: 1, Limits: map[string]int{"cuLaunchKernel": 194, "cuMemcpyHtoDAsync_v2": 1, "cuEventRecord": 13,
		"cuMemcpyDtoHAsync_v2": 12, "cuEventSynchronize": 12}, Target: 88 * time.Millisecond})
}
