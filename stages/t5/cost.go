package t5

import (
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
	return layout.Stage{Weights: all, Largest: largest, Parts: parts, Work: work}, err
}
