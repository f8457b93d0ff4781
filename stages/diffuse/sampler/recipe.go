package sampler

import "fmt"

// Recipe is how a model is sampled.
type Recipe struct {
	// NumInferenceSteps and GuidanceScale are those of the published configurations.
	NumInferenceSteps int
	GuidanceScale     float64
	// GuidedChannels is how many of the first latent channels guidance touches; 0: all. Only IDDPM leaves
	// channels out.
	GuidedChannels int

	flow       bool
	fp32Tables bool
	frames     frameRule
	style      flowStyle
	wan        WanConfig // of Wan's solvers; zero: another
	vp         VPConfig  // of the variance-preserving process; zero: another
}

// recipes are the published ones (configs/opensora*/inference of the reference).
var recipes = map[string]Recipe{
	"1.0": {NumInferenceSteps: 100, GuidanceScale: 7, GuidedChannels: 3},
	"1.1": {NumInferenceSteps: 100, GuidanceScale: 7, GuidedChannels: 3, fp32Tables: true},
	"1.2": {NumInferenceSteps: 30, GuidanceScale: 7, flow: true, frames: groupsOf17},
	"1.3": {NumInferenceSteps: 30, GuidanceScale: 7.5, flow: true, frames: every4th,
		style: flowStyle{Oscillate: true, Rescale: true}},
}

// OpenSora returns the recipe of a version, "1.0" to "1.3".
func OpenSora(version string) (Recipe, error) {
	r, ok := recipes[version]
	if !ok {
		return r, fmt.Errorf("sampler: no Open-Sora %q; there are 1.0, 1.1, 1.2 and 1.3", version)
	}
	return r, nil
}

// Check says why a row with these parameters cannot be sampled, or nil; the text begins with the parameter.
func (r Recipe) Check(numInferenceSteps int, clip VideoSize) error {
	least := MinSteps
	if r.flow || r.wan != (WanConfig{}) || r.vp != (VPConfig{}) {
		least = 1
	}
	if numInferenceSteps < least || numInferenceSteps > MaxSteps {
		return fmt.Errorf("num_inference_steps is %d: give %d to %d", numInferenceSteps, least, MaxSteps)
	}
	if r.wan.Solver == solverDMD && numInferenceSteps != len(dmdTimesteps) {
		return fmt.Errorf("num_inference_steps is %d: dmd has %d", numInferenceSteps, len(dmdTimesteps))
	}
	if err := r.vp.check(numInferenceSteps); err != nil {
		return err
	}
	if r.flow {
		return r.frames.check(clip.Frames)
	}
	return nil
}

// New returns the sampler of rows with these parameters.
func (r Recipe) New(numInferenceSteps int, clip VideoSize) (Sampler, error) {
	if err := r.Check(numInferenceSteps, clip); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	if r.wan != (WanConfig{}) {
		return r.wan.new(numInferenceSteps), nil
	}
	if r.vp != (VPConfig{}) {
		return r.vp.new(numInferenceSteps), nil
	}
	if !r.flow {
		return NewIDDPM(numInferenceSteps, r.GuidedChannels, r.fp32Tables)
	}
	return &RectifiedFlow{timetable{flowTimestepsOf(numInferenceSteps, r.frames, clip)}, r.style}, nil
}
