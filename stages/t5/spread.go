package t5

import (
	"context"
	"slices"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/nn"
)

// groupsOfStage is the number of groups of prompts for each stage of a pipeline. While a stage encodes one group, the stage
// before it encodes the next.
const groupsOfStage = 2

// textsTogether is the number of waiting rows that are encoded at once. The 11 GB of UMT5-xxl are read once per batch, and one
// text of 60 tokens has too little work for that.
const textsTogether = 16

// Capabilities says what the encoder can do beyond Run.
func (s *stage) Capabilities() stages.Capabilities {
	out := stages.Capabilities{Cost: s.Cost, Loading: s.Loading(), Spread: &stages.Spread{Width: s.Width, Run: s.RunSet},
		Together: func(*schemas.PromptRow) int { return textsTogether }, CutTokens: s.cutTokens}
	if n := s.Config.variant().tokens; n > 0 {
		out.Published = func() schemas.PromptRow { return schemas.PromptRow{MaxSequenceLength: n} }
	}
	return out
}

// Width returns the number of devices that the weights are split over.
func (s *stage) Width(*schemas.PromptRow) int { return s.Shards() }

// RunSet encodes the batch on devices that each have a part of the weights. Prompts pass through them in groups. Rank 0 stores
// the texts in the elements.
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
