package diffuse

import (
	"errors"
	"fmt"
	"slices"

	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/condition"
)

// checkCondition refuses conditions that the model does not take or that cannot be read.
func (s *stage) checkCondition(row *schemas.PromptRow) error {
	_, err := condition.Parse(row.MaskStrategy)
	switch {
	case err != nil:
		return err
	case row.Reference != "" && !slices.Contains(s.Params, stages.ParamReference):
		return fmt.Errorf("reference is given, but %s takes none", s.Name)
	case row.Reference != "" && row.MaskStrategy == "" && s.Conditions.Images == nil:
		return errors.New("mask_strategy is missing: a reference needs one, such as 0, " +
			"which begins with its first frame")
	case row.Loop > 1:
		return s.checkLoop(row)
	}
	return nil
}

// condition fails the elements whose given frames do not fit and returns the others, with the edit ratios of their
// frames (n x T), nil where no frame of the batch is given.
func (s *stage) condition(batch []*stages.Element, size Size, clip int) (fit []*stages.Element, masks []float32) {
	var scratch *stages.Array
	for _, e := range batch {
		if !isGiven(e) {
			fit = append(fit, e)
			masks = append(masks, slices.Repeat([]float32{1}, size.T)...)
			continue
		}
		if scratch == nil {
			scratch = stages.NewArray(s.Channels, size.T, size.H, size.W)
		}
		own, err := s.give(scratch, e, clip)
		if err != nil {
			e.Fail("denoise", fault.Row(err))
			continue
		}
		fit = append(fit, e)
		masks = append(masks, own...)
	}
	if scratch == nil {
		return fit, nil
	}
	return fit, masks
}

var errNotEncoded = errors.New("reference is given, but nothing has encoded it: " +
	"put `- encode_reference: {}` before denoise")

// isGiven reports whether an element has given frames.
func isGiven(e *stages.Element) bool { return e.Row.Reference != "" || len(e.References) > 0 }

// give puts the given frames of an element into the latents z of a clip and returns the edit ratio of every frame.
func (s *stage) give(z *stages.Array, e *stages.Element, clip int) ([]float32, error) {
	if len(e.References) == 0 {
		return nil, errNotEncoded
	}
	pieces, err := condition.Parse(e.Row.MaskStrategy)
	if err != nil {
		return nil, err
	}
	return condition.Apply(z, e.References, pieces, clip, s.Conditions.Align)
}
