package t5

import (
	"latentbeam/internal/plan"
	"latentbeam/internal/plan/layout"
	"latentbeam/schemas"
	"latentbeam/stages/nn"
)

// Cost is that of prompts of full length. An element is encoded by one device.
func (s *stage) Cost(row *schemas.PromptRow) (layout.Stage, error) {
	texts := 1
	if row.NegativePrompt != "" {
		texts = 2
	}
	encode, err := s.Config.encoding(texts, row.MaxSequenceLength)
	if err != nil {
		return layout.Stage{}, err
	}
	work, err := nn.Work(encode)
	all, largest, parts := s.Bytes(s.Config.DType)
	asked := plan.Grid{Sequence: 1, Tensor: s.tensor, Pipeline: s.pipeline}
	return layout.Stage{Weights: all, Largest: largest, Parts: parts, Work: work, Grid: asked, Rounds: 1,
		Shards: s.ShardBytes(s.Config.DType, s.grid())}, err
}
