package pool

import (
	"testing"

	"latentbeam/kernels/cpu"
)

func TestMeasure(t *testing.T) {
	be := cpu.New(1)
	rate, err := Rate(be)
	if err != nil || rate < 1e8 || rate > 1e14 {
		t.Errorf("%g FLOP/s, %v", rate, err)
	}
	bandwidth, err := Bandwidth(be)
	if err != nil || bandwidth < 1e7 || bandwidth > 1e13 {
		t.Errorf("%g bytes/s, %v", bandwidth, err)
	}
	t.Logf("%.1f GFLOP/s, %.1f GB/s", rate/1e9, bandwidth/1e9)
}
