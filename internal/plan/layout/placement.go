package layout

import "latentbeam/internal/plan/weights"

// Placement is where the weights of a stage lie that do not fit one device beside its activations.
type Placement struct {
	Stage string
	Parts int // blocks, and what belongs to none
	// Runs are the parts of each device when they are cut over all of them, Fullest the bytes of the fullest; none
	// where all devices together are too small.
	Runs    []weights.Range
	Fullest int64
	// Stream is what stays on the first device when the others pass through two buffers; Streamed says whether
	// that fits.
	Stream   weights.Streaming
	Streamed bool
}

// placements finds a place for every stage whose weights are too large for the first device alone.
func (q *Query) placements() []Placement {
	var out []Placement
	d := q.Devices[0]
	if d.Mapped {
		return nil
	}
	for _, s := range q.Stages {
		room := d.room()
		if s.Need != nil {
			if need, err := s.Need(1); err == nil {
				room -= need
			}
		}
		if s.Weights <= room || len(s.Parts) == 0 {
			continue
		}
		p := Placement{Stage: s.Name, Parts: len(s.Parts)}
		work := make([]float64, len(s.Parts))
		for i, b := range s.Parts {
			work[i] = float64(b)
		}
		var targets []weights.Target
		for _, d := range q.Devices {
			targets = append(targets, weights.Target{Bytes: d.room(), Speed: d.Rate})
		}
		if runs, err := weights.Partition(s.Parts, work, targets); err == nil {
			p.Runs = runs
			for _, r := range runs {
				var sum int64
				for _, b := range s.Parts[r.Lo:r.Hi] {
					sum += b
				}
				p.Fullest = max(p.Fullest, sum)
			}
		}
		if stream, err := weights.Stream(s.Parts[1:], s.Parts[0], room); err == nil {
			p.Stream, p.Streamed = stream, true
		}
		out = append(out, p)
	}
	return out
}
