package t5

import (
	"latentbeam/schemas"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn"
)

// Cost returns the cost for prompts of full length. One device encodes an element.
func (s *stage) Cost(row *schemas.PromptRow) (cost.Estimate, error) {
	texts := 1
	if row.NegativePrompt != "" {
		texts = 2
	}
	encode, err := s.Config.encoding(texts, row.MaxSequenceLength)
	if err != nil {
		return cost.Estimate{}, err
	}
	cost := s.Weigh(s.Config.DType)
	cost.Rounds = 1
	cost.Kernels, err = nn.Work(encode)
	cost.Work = cost.Kernels.Work()
	return cost, err
}
