package schedule

import (
	"math/rand/v2"
	"testing"
	"time"

	"latentbeam/schemas"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
	"latentbeam/stages/sequence"
)

func newForecast() *forecast {
	f := &forecast{}
	f.open(NewPredictions())
	return f
}

// denoiser is a stage whose batches can be shared.
func denoiser() *cost.Estimate {
	return &cost.Estimate{Split: &cost.Split{
		Shape: sequence.Shape{Batch: 2, Frames: 16, Positions: 256, Heads: 16, HeadSize: 72, QueryTile: 64},
		Pairs: 28, Steps: 30, Bytes: 4, Costs: sequence.Costs{Local: 66e6, Project: 8e6, Score: 288},
	}, Need: func(int) (int64, error) { return 1, nil }}
}

// A stage that takes twice as long as predicted is predicted to take twice as long, rows of other shapes too as
// long as these have not been timed.
func TestForecastLearnsThePace(t *testing.T) {
	f, one := newForecast(), layout.Workers([]float64{1})
	a, b := costKey{1, schemas.Bucket{Width: 8}}, costKey{1, schemas.Bucket{Width: 16}}
	first := f.seconds(a, denoiser(), 1, one)
	if f.measured(1) {
		t.Error("a stage is known that was never timed")
	}
	times := func(n float64) time.Duration { return time.Duration(n * first * float64(time.Second)) }
	f.record(a, denoiser(), 1, one, times(2))
	near := func(what string, got, want float64) {
		t.Helper()
		if got < want*0.99 || got > want*1.01 {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	near("twice its time", f.seconds(a, denoiser(), 1, one), 2*first)
	near("another shape", f.seconds(b, denoiser(), 1, one), 2*first)
	f.record(b, denoiser(), 1, one, times(3))
	near("the other shape has its own pace", f.seconds(a, denoiser(), 1, one), 2*first)
	f.record(a, nil, 1, one, time.Hour)
	if f.seconds(a, nil, 1, one) != 0 || !f.measured(1) {
		t.Error("a stage that cannot say what it costs is predicted")
	}
	near("half as fast a device", f.seconds(a, denoiser(), 1, layout.Workers([]float64{0.5})), 4*first)
}

// Groups of frames are shared by devices, a group each.
func TestForecastOfPieces(t *testing.T) {
	f, decode := newForecast(), &cost.Estimate{Work: 1e11, Pieces: 3}
	alone := f.seconds(costKey{}, decode, 1, layout.Workers([]float64{1}))
	for n, want := range map[int]float64{2: 2. / 3, 3: 1. / 3, 5: 1. / 3} {
		if got := f.seconds(costKey{}, decode, 1, layout.Workers(sequence.Equal(n))) / alone; got < want-1e-9 || got > want+1e-9 {
			t.Errorf("3 groups on %d devices take %.3f of one device's time, want %.3f", n, got, want)
		}
	}
}

// The table returns the cost model's answer for a set, in any order of requests: of some devices of some machine, in
// some order.
func TestForecastRemembersTheRightSet(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	f, cost := newForecast(), denoiser()
	for range 60 {
		machine := make([]layout.DeviceModel, 1+r.IntN(8))
		for i := range machine {
			machine[i] = layout.DeviceModel{Rate: 1e12 * float64(1+r.IntN(2)), Link: 1e10 * float64(1+r.IntN(2)), Host: 1e9,
				Island: r.IntN(2), Node: r.IntN(2)}
			if i > 0 && r.IntN(2) > 0 {
				machine[i] = machine[i-1]
			}
		}
		for range 5 {
			set, k := subset(machine, r.Perm(len(machine))[:1+r.IntN(len(machine))]), 1+r.IntN(3)
			want, _ := layout.Seconds(*cost, k, set)
			if got := f.seconds(costKey{}, cost, k, set); got != want {
				t.Fatalf("%d elements on %+v take %g, want %g", k, set, got, want)
			}
		}
	}
}

// What did not fit stays known when a larger batch does not fit either.
func TestTooManyKeepsTheLeast(t *testing.T) {
	f, key := newForecast(), costKey{1, schemas.Bucket{Width: 8}}
	for _, n := range []int{12, 5, 9} {
		f.tooMany(key, n)
	}
	if n := f.most(key, denoiser(), 1<<40, 2, 64); n != 4 {
		t.Errorf("%d elements are tried again, 5 did not fit", n)
	}
}
