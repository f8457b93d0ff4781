package diffuse

import (
	"errors"
	"fmt"
	"slices"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/diffuse/condition"
	"latentbeam/stages/diffuse/dit"
)

// checkCondition returns an error for conditions that the model does not support or that cannot be read.
func (s *stage) checkCondition(row *schemas.PromptRow) error {
	_, err := condition.Parse(row.MaskStrategy)
	switch {
	case err != nil:
		return err
	case row.Reference != "" && !slices.Contains(s.Params, stages.ParamReference):
		return fmt.Errorf("reference is given, but %s takes none", s.Name)
	case row.MaskStrategy != "" && s.Conditions.Input != dit.NoImageInput:
		return fmt.Errorf("mask_strategy is given, but %s takes none: its reference is the first frame", s.Name)
	case row.Reference != "" && row.MaskStrategy == "" && s.Conditions.Images == nil && s.Conditions.Input == dit.NoImageInput:
		return errors.New("mask_strategy is missing: a reference needs one, such as 0, " +
			"which begins with its first frame")
	case row.Loop > 1:
		return s.checkLoop(row)
	}
	return nil
}

// masks returns the edit ratio of every frame of an element. It returns an error if the given frames do not fit.
func (s *stage) masks(e *stages.Element, size dit.LatentSize, clip int) ([]float32, error) {
	if s.Conditions.Input == dit.BesideLatents {
		if err := s.checkBeside(e, size); err != nil {
			return nil, err
		}
	}
	if !s.isGiven(e) {
		return slices.Repeat([]float32{1}, size.T), nil
	}
	return s.insertGiven(stages.NewArray(s.Shape(size)...), e, clip)
}

// notEncoded returns the error for a row whose reference was not encoded by any stage.
func (s *stage) notEncoded() error {
	fix := "- encode_reference: {}"
	switch s.Conditions.Input {
	case dit.FirstFrame:
		fix = "- encode_image: {}"
	case dit.BesideLatents:
		fix = "- encode_image: {frames: all}"
	}
	return fmt.Errorf("reference is given, but nothing has encoded it: put `%s` before denoise", fix)
}

// isGiven reports whether an element has given frames.
func (s *stage) isGiven(e *stages.Element) bool {
	return s.Conditions.Input != dit.BesideLatents && (e.Row.Reference != "" || len(e.References) > 0)
}

// checkBeside returns an error if the conditioning latents do not fit the latents.
func (s *stage) checkBeside(e *stages.Element, size dit.LatentSize) error {
	if len(e.References) == 0 {
		return s.notEncoded()
	}
	want := s.Shape(size)
	if got := e.References[0].Shape; len(e.References) != 1 || !slices.Equal(got, want) {
		return fmt.Errorf("the image has latents of shape %v, the clip needs %v: put `- encode_image: {frames: all}` before "+
			"denoise", got, want)
	}
	return nil
}

// firstFrame is the mask strategy that starts the clip with the first reference.
const firstFrame = "0"

// insertGiven puts the given frames of an element into the latents z of a clip and returns the edit ratio of every frame.
func (s *stage) insertGiven(z *stages.Array, e *stages.Element, clip int) ([]float32, error) {
	if len(e.References) == 0 {
		return nil, s.notEncoded()
	}
	strategy := e.Row.MaskStrategy
	if s.Conditions.Input == dit.FirstFrame {
		strategy = firstFrame
	}
	pieces, err := condition.Parse(strategy)
	if err != nil {
		return nil, err
	}
	return condition.Apply(z, e.References, pieces, clip, s.Conditions.Align)
}
