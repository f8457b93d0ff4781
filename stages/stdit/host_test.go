//go:build linux

package stdit

import (
	"fmt"
	"testing"
	"time"

	"latentbeam/kernels"
	"latentbeam/stages/nn/nntest"
)

// TestHostShare: the work of the host in a step of published models under guidance. Latents and timesteps go to the device,
// the network's prediction comes back in blocks of 4 MiB, and the host waits for nothing else; key lengths are on the device
// from the first step on.
func TestHostShare(t *testing.T) {
	be := nntest.NewIdle(t)
	be.Scope() // never closed: tensors are in the arena, as in a run
	for _, c := range []struct {
		name, model    string
		blocks, steps  int
		fixed, block   int // launches
		waits, uploads int
		target         time.Duration
	}{
		{"STDiT-XL 16x512x512", "1.0 16x64x64 16 120 %d %d", 28, 5, 13, 14, 1, 2, 89 * time.Millisecond},
		{"STDiT3 720p 51 frames", "1.2 15x90x160 51 300 %d %d", 28, 3, 13, 24, 4, 3, 546 * time.Millisecond},
	} {
		if !be.Full {
			c.blocks, c.steps = 2, 3
		}
		launches := c.fixed + c.block*c.blocks
		for _, metered := range []bool{false, true} {
			dev := be.Backend
			limits := map[string]int{"cuLaunchKernel": launches, "cuMemcpyHtoDAsync_v2": c.uploads,
				"cuMemcpyDtoHAsync_v2": c.waits, "cuEventSynchronize": c.waits, "cuEventRecord": c.waits + 2}
			if metered {
				dev = kernels.NewMetered(be.Backend)
				limits["cuEventRecord"], limits["cuEventElapsedTime"] = launches+c.waits+4, launches+2
			}
			t.Run(fmt.Sprintf("%s, metered %v", c.name, metered), func(t *testing.T) {
				s := stepsCase{t: t, weights: nntest.Zeros}
				if err := s.open(dev, fmt.Sprintf(c.model, c.blocks, c.steps)); err != nil {
					t.Fatal(err)
				}
				start := nntest.Hash("z", 1, s.net.InChannels*s.values())
				z := make([]float32, len(start))
				be.Check(t, nntest.Work{Run: func() {
					copy(z, start)
					s.sample(z)
				}, Units: c.steps, Limits: limits, Target: c.target})
			})
		}
	}
}
