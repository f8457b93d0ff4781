package stdit

import (
	"context"
	"fmt"
	"testing"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/diffuse"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn/nntest"
)

// testedStage is the stage `denoise` with a network of this family. It is opened again for every change of the options.
type testedStage struct {
	t      testing.TB
	Config Config
	model  *stages.Model
	opened map[string]stages.Stage

	again     func() (stages.Reencoder, error)
	partition string
	grid      cost.Grid
	images    imageOptions
}

// testStage is the stage with hashed weights.
func testStage(t testing.TB, cfg Config) *testedStage {
	t.Helper()
	return stageOf(t, cfg, nntest.Model(t, "transformer", nntest.Shapes(t, cfg, Load)))
}

// stageOf is the stage of a model.
func stageOf(t testing.TB, cfg Config, m *stages.Model) *testedStage {
	return &testedStage{t: t, Config: cfg, model: m, opened: map[string]stages.Stage{}}
}

// through sets what takes the clips of longer videos through the autoencoder.
func (s *testedStage) through(again func() (stages.Reencoder, error)) {
	s.again, s.opened = again, map[string]stages.Stage{}
}

// onGrid sets the stage's options to those of a grid.
func (s *testedStage) onGrid(g cost.Grid) { s.grid = g }

// stage returns the stage with the options as they are now.
func (s *testedStage) stage() stages.Stage {
	s.t.Helper()
	name := fmt.Sprintf("%s %v %+v", s.partition, s.grid, s.images)
	if now, ok := s.opened[name]; ok {
		return now
	}
	family := Denoiser()
	family.Open = func(_ dit.Configs, o stages.Options) (dit.Network, error) {
		if err := s.Config.validate(); err != nil {
			return nil, err
		}
		return open(s.Config, o)
	}
	again := func(*stages.Model) (stages.Reencoder, error) { return s.again() }
	now, err := diffuse.Spec([]dit.Family{family}, nil, again).New(s.model, func(into any) error {
		o := into.(*options)
		o.DType = map[kernels.DType]string{kernels.F32: "fp32", kernels.BF16: "bf16", kernels.F16: "fp16"}[s.Config.DType]
		o.Partition, o.SequenceParallel = s.partition, schemas.AutoInt(s.grid.Sequence)
		o.TPSize, o.PPSize = schemas.AutoInt(s.grid.Tensor), schemas.AutoInt(s.grid.Pipeline)
		o.CondType, o.ImageScale, o.SDEdit = s.images.CondType, s.images.Scale, s.images.SDEdit
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.opened[name] = now
	return now
}

func (s *testedStage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	return s.stage().Run(ctx, dev, batch)
}

func (s *testedStage) RunSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	return s.stage().Capabilities().Spread.Run(ctx, set, batch)
}

func (s *testedStage) Check(row *schemas.PromptRow) error { return s.stage().Check(row) }

func (s *testedStage) Need(row *schemas.PromptRow, n int) (int64, error) {
	return s.stage().Need(row, n)
}

func (s *testedStage) Width(row *schemas.PromptRow) int {
	return s.stage().Capabilities().Spread.Width(row)
}

func (s *testedStage) loading() *stages.Loading { return s.stage().Capabilities().Loading }

func (s *testedStage) LoopDigest() string { return s.stage().Capabilities().LoopDigest() }

func (s *testedStage) Hold(h cost.Placement) error { return s.loading().Hold(h) }

// cost is the stage's estimate for its weights.
func (s *testedStage) cost(row *schemas.PromptRow) cost.Estimate {
	s.t.Helper()
	c, err := s.stage().Capabilities().Cost(row)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func sizeOf(t, h, w int) dit.LatentSize { return dit.LatentSize{T: t, H: h, W: w} }
