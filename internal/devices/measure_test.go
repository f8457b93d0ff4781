package devices

import (
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
)

// TestMeasureAPause: a machine that stops for a moment, twice, is not taken to be slow.
func TestMeasureAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		seconds, err := repeat(cpu.New(1), wall, func() {
			if calls++; calls == 4 {
				time.Sleep(time.Millisecond)
			} else {
				time.Sleep(time.Minute)
			}
		})
		if err != nil || seconds != 0.001 {
			t.Errorf("%v s, %v", seconds, err)
		}
	})
}

// TestMeasureLostTime: processors of which a part of the time was not told, once, are not taken to be twice as fast.
func TestMeasureLostTime(t *testing.T) {
	told, calls := time.Duration(0), 0
	c := clock{func() time.Duration { return told }, middle}
	seconds, err := repeat(cpu.New(1), c, func() {
		if calls++; calls == 3 {
			told += time.Millisecond
		} else {
			told += 2 * time.Millisecond
		}
		time.Sleep(time.Millisecond)
	})
	if err != nil || seconds != 0.002 {
		t.Errorf("%v s, %v", seconds, err)
	}
}

func TestMeasure(t *testing.T) {
	be := cpu.New(1)
	rate, err := rate(be, kernels.F32, wall)
	if err != nil || rate < 1e8 || rate > 1e14 {
		t.Errorf("%g FLOP/s, %v", rate, err)
	}
	bandwidth, err := Bandwidth(be)
	if err != nil || bandwidth < 1e7 || bandwidth > 1e13 {
		t.Errorf("%g bytes/s, %v", bandwidth, err)
	}
	t.Logf("%.1f GFLOP/s, %.1f GB/s", rate/1e9, bandwidth/1e9)
}
