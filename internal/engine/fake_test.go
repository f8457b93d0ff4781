package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"latentbeam/internal/devices"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
)

// fakePool lends nothing, a bounded number of times at once. Its devices are alike and stay.
type fakePool struct {
	slots  chan bool
	memory cost.Memory
}

func newFakePool(n int) *fakePool {
	return &fakePool{slots: make(chan bool, n), memory: cost.Memory{Target: 100, Limit: 1000}}
}

func (p *fakePool) LeaseSet(ctx context.Context, n int) (*stages.Set, func(bool), error) {
	for i := range n {
		select {
		case p.slots <- true:
		case <-ctx.Done():
			for range i {
				<-p.slots
			}
			return nil, nil, context.Cause(ctx)
		}
	}
	set := &stages.Set{Devices: slices.Repeat([]kernels.Backend{idle{}}, n), Speeds: make([]float64, n)}
	return set, func(bool) {
		for range n {
			<-p.slots
		}
	}, nil
}

func (p *fakePool) LeaseThese(ctx context.Context, devices []int) (*stages.Set, func(bool), error) {
	return p.LeaseSet(ctx, len(devices))
}

func (p *fakePool) Size() int                              { return cap(p.slots) }
func (p *fakePool) Speeds() []float64                      { return slices.Repeat([]float64{1}, p.Size()) }
func (p *fakePool) Changed() <-chan struct{}               { return nil }
func (p *fakePool) Memory() cost.Memory                    { return p.memory }
func (p *fakePool) Class() string                          { return "fake" }
func (p *fakePool) Capabilities() devices.PoolCapabilities { return devices.PoolCapabilities{} }

// idle is a device that computes nothing.
type idle struct{ kernels.Backend }

func (idle) Capabilities() kernels.Capabilities { return kernels.Capabilities{} }

// fakeStage makes latents of prompts by a function, which sees one batch at a time.
type fakeStage struct {
	digest string
	need   func(row *schemas.PromptRow, n int) (int64, error)
	run    func(ctx context.Context, batch []*stages.Element) error
	can    stages.Capabilities
}

func (s fakeStage) Digest() string                    { return s.digest }
func (s fakeStage) Capabilities() stages.Capabilities { return s.can }

// spread is what a stage can that shares batches.
func spread(width int, run func(context.Context, *stages.Set, []*stages.Element) error) stages.Capabilities {
	return stages.Capabilities{Spread: &stages.Spread{Width: func(*schemas.PromptRow) int { return width }, Run: run}}
}

func (s fakeStage) Check(row *schemas.PromptRow) error {
	if row.Height == 13 {
		return fmt.Errorf("height is 13: give another")
	}
	return nil
}

func (s fakeStage) Need(row *schemas.PromptRow, n int) (int64, error) {
	if s.need == nil {
		return 0, nil
	}
	return s.need(row, n)
}

func (s fakeStage) Run(ctx context.Context, _ kernels.Backend, batch []*stages.Element) error {
	return s.run(ctx, batch)
}

// step is fakeStage as a step from prompts to latents, which depends on the prompt and the seed.
func step(name string, s fakeStage) stages.Step {
	params := []stages.Param{stages.ParamPrompt, stages.ParamSeed}
	return stages.Step{Name: name, Gives: stages.KindLatents, Stage: s, Spec: stages.Spec{Name: name, Version: 1,
		In: stages.KindPrompt, Out: stages.KindLatents, Params: params}}
}

// latent gives e the latent that stands for its prompt.
func latent(e *stages.Element) {
	e.Latents = &stages.Array{Shape: []int{1, 1, 1, 1}, Data: []float32{float32(len(e.Row.Prompt))}}
}

// newEngine is an engine with an output of its own and these steps.
func newEngine(t testing.TB, workers int, steps ...stages.Step) *Engine {
	t.Helper()
	dir, err := dir.Open(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	l, err := ledger.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	e := New(steps, newFakePool(workers))
	e.Store, e.Ledger, e.Recovery.Retries, e.Keep = dir, l, 3, map[stages.Kind]bool{stages.KindLatents: true}
	e.Rules = keys.Rules{Input: stages.KindPrompt, Steps: steps, Class: "fake"}
	if err := e.Rules.Seal(); err != nil {
		t.Fatal(err)
	}
	return e
}

// elements makes keyed elements of prompts.
func (e *Engine) elements(prompts ...string) []*stages.Element {
	var out []*stages.Element
	for _, p := range prompts {
		el := &stages.Element{Row: schemas.PromptRow{ID: p, Prompt: p}}
		e.Rules.Apply(el)
		out = append(out, el)
	}
	return out
}
