package stdit

import (
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/sequence"
)

// TestInTurnOnAnySet: videos of several clips and videos that are conditioned on images have the same bytes on any number of
// ranks, and for every split of heads, blocks and tokens.
func TestInTurnOnAnySet(t *testing.T) {
	grids := []cost.Grid{gridOf(1, 1, 2), gridOf(1, 1, 3), gridOf(2, 1, 2), gridOf(1, 2, 2), gridOf(2, 2, 3)}
	for k, cfg := range tinyConfigs() {
		cfg.Depth = 3
		frames := map[Version]int{OpenSora11: 10, OpenSora12: 34, OpenSora13: 33}[cfg.Version]
		if frames == 0 {
			continue
		}
		type conditions struct {
			images   string // cond_type
			loop     int
			guidance float64
		}
		cases := map[string]conditions{"clips": {"", 2, 4}, "clips without guidance": {"", 2, 1}}
		if cfg.Version == OpenSora13 {
			cases["images"] = conditions{"i2v_loop", 0, 4}
			cases["images, unguided text"] = conditions{"i2v_head", 0, 1}
			cases["clips with images"] = conditions{"i2v_tail", 2, 4}
		}
		s := testStage(t, cfg)
		s.through(func() (stages.Reencoder, error) { return &halving{}, nil })
		for name, c := range cases {
			s.images = imageOptions{CondType: c.images}
			if err := s.images.fill(cfg.Version); err != nil {
				t.Fatal(err)
			}
			batch := func() []*stages.Element {
				batch := batchOf(cfg, 2, frames, 32, 48, 2, c.guidance)
				for i, e := range batch {
					e.Row.Loop, e.Row.ConditionFrameLength = c.loop, 5
					if c.images != "" && (i == 0 || c.loop == 0) {
						shape := []int{cfg.InChannels, 2, 4, 6}
						e.Row.Reference = "image.png"
						e.References = []*stages.Array{{Shape: shape, Data: nntest.Hash("image", 1, shape...)}}
					}
				}
				return batch
			}
			one := batch()
			if err := s.Run(t.Context(), cpu.New(1), one); err != nil {
				t.Fatal(err)
			}
			want := digest(t, one)
			check := func(speeds []float64, how any) {
				t.Helper()
				got := batch()
				if err := s.RunSet(t.Context(), setOf(speeds, func() kernels.Backend { return cpu.New(1) }), got); err != nil {
					t.Errorf("%s %s, %s over %v: %v", cfg.name(), name, s.partition, how, err)
				} else if digest(t, got) != want {
					t.Errorf("%s %s, %s over %v gives other bytes than one rank", cfg.name(), name, s.partition, how)
				}
			}
			for i, speeds := range [][]float64{sequence.Equal(2), sequence.Equal(3), {1, 0.3, 2, 1}, sequence.Equal(7)} {
				for k, partition := range []string{"uneven", "pad"} {
					if s.partition = partition; !testing.Short() || (i+k)%2 == 0 {
						check(speeds, speeds)
					}
				}
			}
			for i := range 2 {
				g := grids[(k+3*i)%len(grids)]
				s.onGrid(g)
				check(sequence.Equal(g.Ranks()), g)
			}
			s.onGrid(cost.Grid{})
		}
	}
}

// tallest notes the most rows that go through the blocks together.
type tallest struct {
	kernels.Backend
	width, rows int
}

func (b *tallest) Alloc(dt kernels.DType, shape ...int) kernels.Tensor {
	if len(shape) == 4 && shape[3] == b.width && shape[2] > 1 { // (rows, T', W, C)
		b.rows = max(b.rows, shape[0])
	}
	return b.Backend.Alloc(dt, shape...)
}

// TestSeparateBranches: if a pipeline has fewer elements than stages, the branches of guidance pass it one by one, so that more
// stages are busy. Otherwise, and if tokens are shared, they pass together.
func TestSeparateBranches(t *testing.T) {
	cfg := tinyConfig()
	cfg.Depth = 3
	for _, c := range []struct {
		n, rows int
		g       cost.Grid
	}{{1, 1, gridOf(1, 1, 2)}, {2, 1, gridOf(1, 1, 3)}, {2, 2, gridOf(1, 1, 2)}, {3, 2, gridOf(1, 1, 2)}, {4, 4, gridOf(1, 1, 2)},
		{1, 2, gridOf(1, 2, 1)}} {
		s := testStage(t, cfg)
		s.onGrid(c.g)
		var devices []*tallest
		set := setOf(sequence.Equal(c.g.Ranks()), func() kernels.Backend {
			devices = append(devices, &tallest{Backend: cpu.New(1), width: cfg.HiddenSize})
			return devices[len(devices)-1]
		})
		if err := s.RunSet(t.Context(), set, (layoutCase{cfg, c.n, 2, 32, 48, 4}).batch()); err != nil {
			t.Fatal(err)
		}
		for r, d := range devices {
			if d.rows != c.rows {
				t.Errorf("%d elements over %v: %d rows at once on rank %d, want %d", c.n, c.g, d.rows, r, c.rows)
			}
		}
	}
}
