package t5

import (
	"context"
	"slices"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn"
)

// groupsOfStage is how many groups of prompts there are for each stage of a pipeline: while one encodes a group,
// the next is at the one before.
const groupsOfStage = 2

// textsTogether is how many rows are encoded at once where they wait: a text of 60 tokens makes too little of a pass over the
// 11 GB of UMT5-xxl.
const textsTogether = 16

// Capabilities says what the encoder can do beyond Run.
func (s *stage) Capabilities() stages.Capabilities {
	out := stages.Capabilities{Cost: s.Cost, Loading: s.Loading(), Spread: &stages.Spread{Width: s.Width, Run: s.RunSet},
		Together: func(*schemas.PromptRow) int { return textsTogether }, CutTokens: s.cutTokens}
	if n := s.Config.kin().tokens; n > 0 {
		out.Published = func() schemas.PromptRow { return schemas.PromptRow{MaxSequenceLength: n} }
	}
	return out
}

// Width is how many devices the weights are cut over.
func (s *stage) Width(*schemas.PromptRow) int { return s.Shards() }

// RunSet encodes the batch on devices that have a part of the weights each: the prompts pass them in groups. Rank 0
// gives the elements their texts.
func (s *stage) RunSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	if set.Ranks() == 1 {
		return s.Run(ctx, set.Devices[0], batch)
	}
	b, err := s.tokenize(batch)
	if err != nil {
		return err
	}
	return nn.OnGrid(ctx, set, s.Cut(), func(_ context.Context, place *nn.GridRank) error {
		enc, err := s.Part(place.Dev, place.Stage)
		if err != nil {
			return err
		}
		defer place.Dev.Scope()()
		var groups [][][]int32
		n := 1
		if place.Stage.Ways > 1 {
			n = min(len(b.ids), groupsOfStage*place.Stage.Ways)
		}
		for i := range n {
			groups = append(groups, b.ids[i*len(b.ids)/n:(i+1)*len(b.ids)/n])
		}
		hidden, err := enc.EncodePipeline(place.Dev, place.Pipeline, groups)
		if err != nil || !place.First() {
			return err
		}
		return b.assign(place.Dev, slices.Concat(hidden...))
	})
}
