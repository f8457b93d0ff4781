package score

import (
	"sync"

	"latentbeam/internal/media/resize"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn"
)

// rehearsal is what a network does of a clip: run, so many times.
type rehearsal struct {
	of    string      // its name
	at    resize.Size // what run depends on beside that
	times float64
	run   func(be kernels.Backend) error // one batch of frames, or one pair, on a backend that computes nothing
	host  int64                          // bytes beside the device's tensors. A processor has both in one memory.
}

// batches is how many batches of a tower the frames of a clip are.
func batches(frames int) float64 { return float64(frames) / batchFrames }

// rehearsed is what a run of a rehearsal takes.
type rehearsed struct {
	bytes, calls int64
	flop         float64
}

// rehearsals remembers what runs take. Its zero value is empty.
type rehearsals struct{ known sync.Map }

func (r *rehearsals) of(x rehearsal) (out rehearsed, err error) {
	key := struct {
		of string
		at resize.Size
	}{x.of, x.at}
	if n, known := r.known.Load(key); known {
		return n.(rehearsed), nil
	}
	if out.bytes, err = nn.PeakBytes(x.run); err != nil {
		return out, err
	}
	if out.flop, out.calls, err = nn.Work(x.run); err == nil {
		r.known.Store(key, out)
	}
	return out, err
}

// Need is the memory of the network that needs most: measures take turns, and so do the clips of a batch.
func (s *stage) Need(row *schemas.PromptRow, _ int) (most int64, err error) {
	for _, m := range s.measures {
		if m.rehearse == nil {
			continue
		}
		if r, known := m.rehearse(row); known {
			took, err := s.rehearsals.of(r)
			if err != nil {
				return 0, err
			}
			most = max(most, took.bytes+r.host)
		}
	}
	return most, nil
}

// cost is what the networks compute of a clip. Decoding, resizing and measures without a network are not counted.
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
		took, err := s.rehearsals.of(r)
		if err != nil {
			return c, err
		}
		c.Work += took.flop * r.times
		c.Calls += int64(float64(took.calls) * r.times)
	}
	return c, nil
}
