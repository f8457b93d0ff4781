package cost

import "fmt"

// Grid says how the work is divided between the ranks of a set: Sequence shares of the tokens; each share is computed by Tensor
// ranks, which have some of the heads and columns, in a Pipeline of stages, which have some of the blocks. Ranks of one tensor
// group are adjacent and ranks of different stages are farthest apart, which suits the amount of data that they exchange.
type Grid struct{ Sequence, Tensor, Pipeline int }

// Ranks returns the number of ranks.
func (g Grid) Ranks() int { return g.Sequence * g.Shards() }

// Shards returns the number of ranks that together have the weights once.
func (g Grid) Shards() int { return g.Tensor * g.Pipeline }

// Rank returns the rank at a position.
func (g Grid) Rank(sequence, tensor, pipeline int) int {
	return (pipeline*g.Sequence+sequence)*g.Tensor + tensor
}

// Place is the inverse of Rank.
func (g Grid) Place(rank int) (sequence, tensor, pipeline int) {
	return rank / g.Tensor % g.Sequence, rank % g.Tensor, rank / g.Tensor / g.Sequence
}

// Lines returns the ranks of the sequence, tensor and pipeline groups of a rank, each in order.
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

// Speeds returns the speed of each share of the tokens, given the speeds of the ranks: the speed of its slowest rank.
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

// Apart reports whether the branches of guidance pass the pipeline one by one. They do if there are fewer elements than stages, so
// that some stages would be idle, and if the tokens are not shared, because joint branches would save exchanges.
func (g Grid) Apart(elements int) bool { return g.Sequence == 1 && elements < g.Pipeline }

// Groups returns the number of groups in which elements pass the pipeline: as many as there are stages, or more if one group
// would be so much larger that all others wait for it.
func (g Grid) Groups(elements int) int {
	for n := min(g.Pipeline, elements); n < elements; n++ {
		if largest := (elements + n - 1) / n; 10*n*largest <= 11*elements {
			return n
		}
	}
	return elements
}

// String formats the grid as "2 x 3 x 1": sequence by tensor by pipeline.
func (g Grid) String() string { return fmt.Sprintf("%d x %d x %d", g.Sequence, g.Tensor, g.Pipeline) }
