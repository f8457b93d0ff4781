package cost

import "fmt"

// Grid is how the ranks of a set are cut: Sequence shares of the tokens, each computed by Tensor ranks that
// have some of the heads and columns, in a Pipeline of stages that have some of the blocks. Ranks of one
// tensor cut are neighbours, those of different stages lie farthest apart, as their exchanges want it.
type Grid struct{ Sequence, Tensor, Pipeline int }

// Ranks returns how many ranks there are.
func (g Grid) Ranks() int { return g.Sequence * g.Shards() }

// Shards returns how many ranks together have the weights once.
func (g Grid) Shards() int { return g.Tensor * g.Pipeline }

// Rank returns the rank of a place.
func (g Grid) Rank(sequence, tensor, pipeline int) int {
	return (pipeline*g.Sequence+sequence)*g.Tensor + tensor
}

// Place is the inverse of Rank.
func (g Grid) Place(rank int) (sequence, tensor, pipeline int) {
	return rank / g.Tensor % g.Sequence, rank % g.Tensor, rank / g.Tensor / g.Sequence
}

// Lines returns the ranks of one place's sequence, tensor and pipeline groups, each in order.
func (g Grid) Lines(rank int) (sequence, tensor, pipeline []int) {
	s, t, p := g.Place(rank)
	for i := range g.Sequence {
		sequence = append(sequence, g.Rank(i, t, p))
	}
	for i := range g.Tensor {
		tensor = append(tensor, g.Rank(s, i, p))
	}
	for i := range g.Pipeline {
		pipeline = append(pipeline, g.Rank(s, t, i))
	}
	return sequence, tensor, pipeline
}

// Speeds returns the speed of each share of the tokens from those of the ranks: its slowest rank's.
func (g Grid) Speeds(ranks []float64) []float64 {
	out := make([]float64, g.Sequence)
	for r, speed := range ranks[:g.Ranks()] {
		s, _, _ := g.Place(r)
		if out[s] == 0 || speed < out[s] {
			out[s] = speed
		}
	}
	return out
}

// Apart reports whether the branches of guidance go through the pipeline one by one: where it holds fewer elements than
// it has stages, so that some would stand idle, and nothing is exchanged that the branches could spare.
func (g Grid) Apart(elements int) bool { return g.Sequence == 1 && elements < g.Pipeline }

// Groups is in how many groups elements go through the pipeline: as many as there are stages, or more where one of
// these would be larger than the others by so much that all wait for it.
func (g Grid) Groups(elements int) int {
	for n := min(g.Pipeline, elements); n < elements; n++ {
		if largest := (elements + n - 1) / n; 10*n*largest <= 11*elements {
			return n
		}
	}
	return elements
}

// String is such as "2 x 3 x 1", sequence by tensor by pipeline.
func (g Grid) String() string { return fmt.Sprintf("%d x %d x %d", g.Sequence, g.Tensor, g.Pipeline) }
