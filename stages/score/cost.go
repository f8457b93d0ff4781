package score

import (
	"latentbeam/internal/media/resize"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn"
)

// rehearsal describes the work of a network for a clip: run, repeated a number of times.
type rehearsal struct {
	of    string      // its name
	at    resize.Size // other values that run depends on
	times float64
	run   func(be kernels.Backend) error // one batch of frames, or one pair, on a backend that computes nothing
	host  int64                          // bytes besides the device's tensors; a processor needs both in the same memory
}

// batches returns the number of batches of a tower for the frames of a clip.
func batches(frames int) float64 { return float64(frames) / batchFrames }

// rehearse returns what one run of a rehearsal needs.
func (s *stage) rehearse(x rehearsal) (nn.Rehearsal, error) {
	type key struct {
		of string
		at resize.Size
	}
	return s.rehearsals.Of(key{x.of, x.at}, x.run)
}

// Need returns the memory of the network that needs most, because measures and clips are processed one after another.
func (s *stage) Need(row *schemas.PromptRow, _ int) (most int64, err error) {
	for _, m := range s.measures {
		if m.rehearse == nil {
			continue
		}
		if r, known := m.rehearse(row); known {
			took, err := s.rehearse(r)
			if err != nil {
				return 0, err
			}
			most = max(most, took.Bytes+r.host)
		}
	}
	return most, nil
}

// cost returns the cost of the networks for a clip. It does not include decoding, resizing and measures without a network.
func (s *stage) cost(row *schemas.PromptRow) (c cost.Estimate, err error) {
	for _, t := range s.towers {
		n, _ := t.Bytes(kernels.F32)
		c.Weights += n
	}
	c.Parts, c.Rounds = []int64{c.Weights}, 1
	for _, m := range s.measures {
		if m.rehearse == nil {
			continue
		}
		r, known := m.rehearse(row)
		if !known {
			continue
		}
		took, err := s.rehearse(r)
		if err != nil {
			return c, err
		}
		c.Kernels.Add(took.Kernels, r.times)
	}
	c.Work = c.Kernels.Work()
	return c, nil
}
