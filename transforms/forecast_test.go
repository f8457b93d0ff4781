package transforms

import (
	"math"
	"testing"
	"time"

	"latentbeam/internal/plan/layout"
	"latentbeam/internal/plan/sequence"
)

// denoiser is a stage whose batches can be shared.
func denoiser() *layout.Stage {
	return &layout.Stage{Split: &layout.Split{
		Shape: sequence.Shape{Batch: 2, Frames: 16, Positions: 256, Heads: 16, HeadSize: 72, QueryTile: 64},
		Pairs: 28, Steps: 30, Bytes: 4, Costs: sequence.Costs{Local: 66e6, Project: 8e6, Score: 288},
	}}
}

func TestForecastAssign(t *testing.T) {
	for _, c := range []struct {
		name   string
		busy   []time.Duration // devices at work for so long
		others int
		least  int
		want   int
	}{
		{"plenty to do", nil, 100, 1, 1},
		{"the last one", nil, 0, 1, 4},
		{"the last two", nil, 1, 1, 2},
		{"another batch will last longer anyway", []time.Duration{100 * time.Hour}, 0, 1, 1},
		{"one device is free at once", []time.Duration{time.Millisecond}, 0, 1, 4},
		{"an element that needs two", nil, 100, 2, 2},
	} {
		f := &forecast{}
		for _, d := range c.busy {
			defer f.begin(0, 1, d.Seconds())(false)
		}
		if got := f.assign(1, denoiser(), 1, c.others, c.least, 4); got != c.want {
			t.Errorf("%s: %d devices, want %d", c.name, got, c.want)
		}
	}
}

// A stage that takes twice as long as predicted is predicted to take twice as long.
func TestForecastLearnsThePace(t *testing.T) {
	f := &forecast{}
	first := f.seconds(1, denoiser(), 1, 1)
	done := f.begin(1, 1, 0.01)
	time.Sleep(20 * time.Millisecond)
	done(true)
	if pace := f.seconds(1, denoiser(), 1, 1) / first; pace < 1.9 || math.IsInf(pace, 0) {
		t.Errorf("a batch took twice its time or more; the next is predicted %g times as long", pace)
	}
	f.begin(1, 1, 1e-9)(false) // one that failed says nothing
	if pace := f.seconds(1, denoiser(), 1, 1) / first; pace > 100 {
		t.Errorf("a batch that failed has changed the pace to %g", pace)
	}
	if f.seconds(1, nil, 1, 1) != 0 {
		t.Error("a stage that cannot say what it costs is predicted")
	}
	if free := f.free(2); free[0] != 0 || free[1] != 0 {
		t.Errorf("devices are free in %v seconds, want now", free)
	}
}
