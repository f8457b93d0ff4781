package stdit

import (
	"context"
	"math"
	"testing"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
	"latentbeam/stages/weights"
)

// counted is the work and traffic of one rank in the blocks of one step.
type counted struct {
	flop  float64
	bytes int64
}

// count runs one step of STDiT3-XL/2 on a device that computes nothing, under a plan, and counts what every
// rank does and sends.
func count(t *testing.T, cfg Config, plan *sequence.Plan, row schemas.PromptRow, branches int) []counted {
	t.Helper()
	batch := batchOf(cfg, 1, row.NumFrames, row.Height, row.Width, 1, 1)
	text := &stages.Array{Shape: []int{cfg.ModelMaxLength, cfg.CaptionChannels},
		Data: make([]float32, cfg.ModelMaxLength*cfg.CaptionChannels)}
	batch[0].Text = &stages.Text{Embedding: text, Negative: text}
	all := make([]counted, plan.Ranks)
	m, err := Load(cfg, weights.ShapesOnly())
	if err != nil {
		t.Fatal(err)
	}
	one := func(ctx context.Context, rank int, tr kernels.Transport) error {
		var failed error
		_, err := nn.Work(func(be kernels.Backend) error {
			g := kernels.NewGroup(ctx, tr, be, time.Minute)
			g.Follow(plan.Hash)
			split := nn.NewSplit(plan, g)
			rows, xs := &dit.Rows{Size: cfg.latentSize(&row), Parts: split.Parts(), Split: split}, []kernels.Tensor(nil)
			for i := range branches {
				rows.Rows = append(rows.Rows, dit.BatchRow{Element: batch[0], Branch: i})
			}
			for _, p := range split.Parts() {
				xs = append(xs, be.Alloc(cfg.DType, p.Rows.Len, plan.Shape.Frames, p.Patches.Len, cfg.HiddenSize))
			}
			b, err := (&loaded{m, 1}).Prepare(be, rows)
			if err != nil {
				return err
			}
			work, sent := be.(*kernels.Metered).Usage(), g.Traffic().Bytes
			_, failed = b.Advance(xs, dit.Instant{Timesteps: make([]float32, branches)}, false)
			done := be.(*kernels.Metered).Usage()
			all[rank] = counted{done.FLOP() - work.FLOP(), g.Traffic().Bytes - sent}
			return failed
		})
		return err
	}
	if err := kernels.RunRanks(t.Context(), cluster.Shared(plan.Ranks), time.Second, one); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestCountersOf16Frames: the work and the traffic of the ranks of a set for 16 latent frames of 1024 patches, counted in the
// full-size network, are what the plan says, with and without guidance. With `uneven`, no rank works more than 1.6 % above
// its share, and none sends more than 2 A/N for a pair of blocks, or anything if the batch can be divided.
func TestCountersOf16Frames(t *testing.T) {
	cfg, err := ParseConfig([]byte(`{"model_type": "STDiT3", "depth": 2, "hidden_size": 1152, "num_heads": 16,
		"caption_channels": 4096, "model_max_length": 300, "qk_norm": true}`))
	if err != nil {
		t.Fatal(err)
	}
	row := schemas.PromptRow{Height: 512, Width: 512, NumFrames: 55, NumInferenceSteps: 1}
	for branches := 1; branches <= 2; branches++ {
		guidance := float64(2*branches - 1)
		row.GuidanceScale = &guidance
		cost, err := workOf(cfg, &row)
		if err != nil {
			t.Fatal(err)
		}
		shape := cost.Split.Shape
		if shape.Batch != branches || shape.Frames != 16 || shape.Positions != 1024 {
			t.Fatalf("the shape is %+v", shape)
		}
		pairs := float64(cfg.Depth)
		a := float64(shape.Batch*shape.Frames*shape.Positions*shape.Width()) * float64(cfg.DType.Size())
		alone := 0.0
		for n := 1; n <= 8; n++ {
			for _, kind := range []sequence.Partition{sequence.Uneven, sequence.Pad} {
				plan, err := sequence.New(shape, kind, sequence.Equal(n))
				if err != nil {
					t.Fatal(err)
				}
				var most counted
				for r, c := range count(t, cfg, plan, row, branches) {
					most = counted{max(most.flop, c.flop), max(most.bytes, c.bytes)}
					l := plan.Load(r, cost.Split.Costs)
					if want := pairs * (l.Local + l.Shared); math.Abs(c.flop-want) > 0.004*want {
						t.Errorf("%v, rank %d of %d: %g FLOP, the plan says %g", kind, r, n, c.flop, want)
					}
					if want := int64(pairs) * plan.Sent()[r].Total() * int64(cfg.DType.Size()); c.bytes != want {
						t.Errorf("%v, rank %d of %d: %d bytes, the plan says %d", kind, r, n, c.bytes, want)
					}
				}
				if n == 1 {
					alone = most.flop
				}
				waste := max(most.flop*float64(n)/alone-1, plan.Imbalance(cost.Split.Costs))
				sent := float64(most.bytes) / pairs / (2 * a / float64(n))
				t.Logf("%d branches on %d ranks, %v: the busiest does %.2f %% more than its share and sends %.3f of 2 A/N",
					branches, n, kind, 100*waste, sent)
				if kind == sequence.Uneven && (waste > 0.016 || sent > 1 || branches%n == 0 && sent > 0) {
					t.Errorf("%d branches on %d ranks: %.2f %% more than its share, %.3f of 2 A/N", branches, n,
						100*waste, sent)
				}
			}
		}
	}
}
