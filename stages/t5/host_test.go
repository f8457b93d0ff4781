//go:build linux

package t5

import (
	"testing"
	"time"

	"latentbeam/kernels"
	"latentbeam/stages/nn/nntest"
)

// TestHostShare: the work of the host while 120 tokens are encoded with T5-xxl. Ids and the bias's rows go to the device, the
// embedding comes back, and the host waits for nothing else.
func TestHostShare(t *testing.T) {
	be := nntest.NewIdle(t)
	layers := 2
	if be.Full {
		layers = xxlLayers
	}
	cfg, shapes := xxl(t, layers)
	e := nntest.Loaded(t, be, cfg, Load, nntest.Zeros(t, shapes))
	ids := [][]int32{make([]int32, 120)}
	launches := 5 + 10*layers
	for name, dev := range map[string]kernels.Backend{"bare": be.Backend, "metered": kernels.NewMetered(be.Backend)} {
		limits := map[string]int{"cuLaunchKernel": launches, "cuMemcpyHtoDAsync_v2": 2, "cuMemcpyDtoHAsync_v2": 1,
			"cuEventRecord": 1, "cuEventSynchronize": 1}
		if name == "metered" {
			limits["cuEventRecord"], limits["cuEventElapsedTime"] = launches+3, launches
		}
		t.Run(name, func(t *testing.T) {
			be.Check(t, nntest.Work{Run: func() { encode(t, dev, e, ids) }, Units: 1, Limits: limits,
				Target: 2750 * time.Microsecond})
		})
	}
}
