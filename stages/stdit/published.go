package stdit

import "latentbeam/schemas"

// Published returns the sampling parameters of the version's inference configuration, and the length of text that
// the model was trained on.
func (s *stage) Published() schemas.PromptRow {
	guidance, fps := s.recipe.GuidanceScale, 24/s.frameInterval
	if s.Config.Version == OpenSora10 {
		fps = 8
	}
	return schemas.PromptRow{NumInferenceSteps: s.recipe.NumInferenceSteps, GuidanceScale: &guidance, FPS: fps,
		MaxSequenceLength: s.Config.ModelMaxLength, ConditionFrameLength: conditionFrames[s.Config.Version]}
}

// conditionFrames is how many latent frames of a clip the next one begins with.
var conditionFrames = map[Version]int{OpenSora11: 4, OpenSora12: 5, OpenSora13: 5}
