package stdit

import (
	"testing"

	"latentbeam/internal/plan/sequence"
	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
)

// TestInTurnOnAnySet: videos of several clips and those that are conditioned by images have the same bytes on any
// number of ranks.
func TestInTurnOnAnySet(t *testing.T) {
	for _, cfg := range tinyConfigs() {
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
			cases["images"] = conditions{imageLoop, 0, 4}
			cases["images, unguided text"] = conditions{imageHead, 0, 1}
			cases["clips with images"] = conditions{imageTail, 2, 4}
		}
		s := testStage(t, cfg)
		s.again = func() (stages.Reencoder, error) { return &halving{}, nil }
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
			for _, speeds := range [][]float64{sequence.Equal(2), sequence.Equal(3), {1, 0.3, 2, 1}, sequence.Equal(7)} {
				for _, s.partition = range []string{"uneven", "pad"} {
					got := batch()
					set := setOf(speeds, func() kernels.Backend { return cpu.New(1) })
					if err := s.RunSet(t.Context(), set, got); err != nil {
						t.Errorf("%s %s, %s over %v: %v", cfg.name(), name, s.partition, speeds, err)
					} else if digest(t, got) != want {
						t.Errorf("%s %s, %s over %v gives other bytes than one rank", cfg.name(), name, s.partition, speeds)
					}
				}
			}
		}
	}
}
