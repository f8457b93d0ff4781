package stdit

import (
	"latentbeam/internal/plan"
	"latentbeam/internal/plan/layout"
	"latentbeam/schemas"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
)

// queryTile is what ranges of queries are multiples of when a frame is shared out.
const queryTile = 64

// Cost is that of the network over all steps, for texts of full length. An element can be shared by its
// columns and frames; spatial attention is what they meet in.
func (s *stage) Cost(row *schemas.PromptRow) (layout.Stage, error) {
	work, err := s.Config.cost(row)
	if err != nil {
		return work, err
	}
	cost := s.Weigh(s.Config.DType)
	cost.Work, cost.Split, cost.Rounds = work.Work, work.Split, row.NumInferenceSteps
	cost.Split.Width = s.Width(row)
	if cost.Split.Grid, cost.Split.Sums = s.grid(), sumsOfPair(s.Config.Version); s.Shards() <= 1 {
		cost.Split.Grid = plan.Grid{}
	}
	cost.Split.Partitions, err = layout.Partitions(s.partition)
	return cost, err
}

// sumsOfPair is how many layers of a pair of blocks tensor parallelism cuts the sums of: those behind the
// attentions and the MLPs.
func sumsOfPair(v Version) int {
	if v == OpenSora10 || v == OpenSora11 { // one block does both
		return 4
	}
	return 6
}

// cost is Cost without the weights.
func (c Config) cost(row *schemas.PromptRow) (layout.Stage, error) {
	branches := 1
	if guided(row) {
		branches = 2
	}
	size := c.latentSize(row)
	prepare, err := c.work(branches, size, false)
	if err != nil {
		return layout.Stage{}, err
	}
	both, err := c.work(branches, size, true)
	if err != nil {
		return layout.Stage{}, err
	}
	t, h, w := c.PatchSize.Grid(size.T, size.H, size.W)
	shape := sequence.Shape{Batch: branches, Frames: t, Positions: h * w, Heads: c.NumHeads,
		HeadSize: c.HiddenSize / c.NumHeads, QueryTile: queryTile}
	steps := row.NumInferenceSteps * max(1, row.Loop) // of all clips
	split := &layout.Split{Shape: shape, Pairs: c.Depth, Steps: steps, Bytes: c.DType.Size()}
	step := both - prepare
	split.Costs = sequence.Costs{
		Project: 6 * float64(c.HiddenSize) * float64(c.HiddenSize),
		Score:   4 * float64(shape.HeadSize),
	}
	tokens := float64(branches) * float64(t) * float64(shape.Positions)
	split.Costs.Local = (step - float64(c.Depth)*shape.Total(split.Costs)) / (float64(c.Depth) * tokens)
	return layout.Stage{Work: prepare + float64(steps)*step, Split: split}, nil
}

// work returns the FLOP of Prepare, and with forward of one Forward.
func (c Config) work(rows int, size Size, forward bool) (float64, error) {
	evaluate, err := c.evaluation(rows, size, c.ModelMaxLength, forward)
	if err != nil {
		return 0, err
	}
	return nn.Work(evaluate)
}
