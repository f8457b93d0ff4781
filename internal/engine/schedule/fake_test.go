package schedule

import (
	"context"
	"errors"
	"slices"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
)

// testClock is the clock of the test.
type testClock struct{}

func (testClock) Now() time.Time { return time.Now() }

func (testClock) AfterFunc(d time.Duration, f func()) func() {
	timer := time.AfterFunc(d, f)
	return func() { timer.Stop() }
}

// fakePool has n devices and lends none.
type fakePool struct{ n int }

func newFakePool(n int) *fakePool { return &fakePool{n} }

var errLends = errors.New("this pool lends nothing")

func (p *fakePool) LeaseSet(context.Context, int) (*stages.Set, func(bool), error) {
	return nil, nil, errLends
}

func (p *fakePool) LeaseThese(context.Context, []int) (*stages.Set, func(bool), error) {
	return nil, nil, errLends
}

func (p *fakePool) Size() int                              { return p.n }
func (p *fakePool) Speeds() []float64                      { return slices.Repeat([]float64{1}, p.n) }
func (p *fakePool) Changed() <-chan struct{}               { return nil }
func (p *fakePool) Memory() cost.Memory                    { return cost.Memory{Target: 100, Limit: 1000} }
func (p *fakePool) Class() string                          { return "fake" }
func (p *fakePool) Capabilities() devices.PoolCapabilities { return devices.PoolCapabilities{} }

// fakeStage computes nothing.
type fakeStage struct{ can stages.Capabilities }

func (fakeStage) Digest() string                              { return "" }
func (s fakeStage) Capabilities() stages.Capabilities         { return s.can }
func (fakeStage) Check(*schemas.PromptRow) error              { return nil }
func (fakeStage) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }
func (fakeStage) Run(context.Context, kernels.Backend, []*stages.Element) error {
	return errors.New("this stage computes nothing")
}

// shares is a stage whose batches can be shared by a set.
type shares struct{ fakeStage }

func (shares) Need(_ *schemas.PromptRow, n int) (int64, error) { return int64(40 * n), nil }

func (shares) Capabilities() stages.Capabilities {
	return stages.Capabilities{
		Spread: &stages.Spread{Width: func(*schemas.PromptRow) int { return 0 }},
		Cost: func(row *schemas.PromptRow) (cost.Estimate, error) {
			c := *denoiser()
			split := *c.Split
			split.Shape.Frames *= row.NumFrames
			if row.NumInferenceSteps > 0 {
				split.Steps = row.NumInferenceSteps
			}
			c.Split = &split
			return c, nil
		},
	}
}

// rowOf is a row of so many frames.
func rowOf(frames int) schemas.PromptRow {
	return schemas.PromptRow{Width: 8, Height: 8, NumFrames: frames}
}
