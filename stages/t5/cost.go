package t5

import (
	"latentbeam/schemas"
	"latentbeam/stages/cost"
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
	all, err := s.rehearsals.Of([2]int{texts, row.MaxSequenceLength}, encode)
	cost.Kernels, cost.Work = all.Kernels, all.Kernels.Work()
	return cost, err
}
