package diffuse

import (
	"cmp"

	"latentbeam/internal/plan/layout"
	"latentbeam/schemas"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
)

// queryTile is what ranges of queries are multiples of when a frame is shared out.
const queryTile = 64

// Cost is that of the network over all steps, for texts of full length. An element can be shared by its
// columns and frames; spatial attention is what they meet in.
func (s *stage) Cost(row *schemas.PromptRow) (cost.Estimate, error) {
	work, err := Work(s.Config, row)
	if err != nil {
		return work, err
	}
	e := s.Weigh(s.DType)
	if s.experts != nil {
		e.Grid.Pipeline = 1
	}
	e.Work, e.Split, e.Rounds = work.Work, work.Split, row.NumInferenceSteps
	e.Split.Width = s.Width(row)
	if e.Split.Grid, e.Split.Sums = s.grid(), s.Sums; s.Shards() <= 1 {
		e.Split.Grid = cost.Grid{}
	}
	e.Split.Partitions, err = layout.Partitions(s.Options.Partition)
	return e, err
}

// Work returns the work of a network on one row over all steps, for texts of full length, and how a set can share
// it.
func Work(net Network, row *schemas.PromptRow) (cost.Estimate, error) {
	d := net.Describe()
	branches := 1
	if guided(row) {
		branches = 2
	}
	size := net.LatentSize(row)
	prepare, before, err := flop(net, branches, size, false)
	if err != nil {
		return cost.Estimate{}, err
	}
	both, all, err := flop(net, branches, size, true)
	if err != nil {
		return cost.Estimate{}, err
	}
	box := size.in(d.Box)
	t, h, w := d.Patch.Grid(box.T, box.H, box.W)
	shape := sequence.Shape{Batch: branches, Frames: t, Positions: h * w, Heads: d.Heads,
		HeadSize: d.Hidden / d.Heads, QueryTile: queryTile, Full: d.Full}
	steps := row.NumInferenceSteps * max(1, row.Loop) // of all clips
	split := &cost.Split{Shape: shape, Pairs: d.Blocks, Steps: steps, Calls: all - before,
		Bytes: d.DType.Size()}
	step := both - prepare
	split.Costs = sequence.Costs{
		Project: 6 * float64(d.Hidden) * float64(d.Hidden),
		Score:   4 * float64(shape.HeadSize) * cmp.Or(d.Scored, 1),
	}
	tokens := float64(branches) * float64(t) * float64(shape.Positions)
	split.Costs.Local = (step - float64(d.Blocks)*shape.Total(split.Costs)) / (float64(d.Blocks) * tokens)
	return cost.Estimate{Work: prepare + float64(steps)*step, Split: split}, nil
}

// flop returns the FLOP of preparing rows, and with forward of evaluating them once, and the calls of that.
func flop(net Network, rows int, size Size, forward bool) (flop float64, calls int64, err error) {
	evaluate, err := evaluation(net, rows, size, net.Describe().TextTokens, forward)
	if err != nil {
		return 0, 0, err
	}
	return nn.Work(evaluate)
}
