package sampler

import "fmt"

// Recipe says how a model is sampled: its published settings, and the Method that makes samplers for rows. A family of networks
// has its own Recipe; OpenSora, Wan and VP return the published ones.
type Recipe struct {
	// NumInferenceSteps and GuidanceScale are the defaults for rows.
	NumInferenceSteps int
	GuidanceScale     float64
	// GuidedChannels is the number of first latent channels that guidance changes; 0: all. Only IDDPM supports fewer.
	GuidedChannels int
	// LeastSteps is the smallest num_inference_steps of a row; 0: 1.
	LeastSteps int
	Method     Method
}

// Method makes samplers. It is read-only.
type Method interface {
	// Check returns an error if a row cannot be sampled. The text starts with the parameter. The number of steps has been
	// checked to be between LeastSteps and MaxSteps.
	Check(r Row) error
	// New returns the sampler for a row that Check accepts.
	New(r Row) (Sampler, error)
}

// Row holds the values of a row that a Method may depend on.
type Row struct {
	NumInferenceSteps int
	Video             VideoSize
	GuidedChannels    int // from the job or the Recipe; 0: all
}

// openSora are the published recipes (configs/opensora*/inference of the reference).
var openSora = map[string]Recipe{
	"1.0": {NumInferenceSteps: 100, GuidanceScale: 7, GuidedChannels: 3, LeastSteps: MinSteps, Method: iddpm{}},
	"1.1": {NumInferenceSteps: 100, GuidanceScale: 7, GuidedChannels: 3, LeastSteps: MinSteps, Method: iddpm{fp32Tables: true}},
	"1.2": {NumInferenceSteps: 30, GuidanceScale: 7, Method: rectifiedFlow{frames: groupsOf17}},
	"1.3": {NumInferenceSteps: 30, GuidanceScale: 7.5, Method: rectifiedFlow{frames: every4th,
		style: flowStyle{Oscillate: true, Rescale: true}}},
}

// OpenSora returns the recipe of a version from "1.0" to "1.3".
func OpenSora(version string) (Recipe, error) {
	r, ok := openSora[version]
	if !ok {
		return r, fmt.Errorf("sampler: no Open-Sora %q; there are 1.0, 1.1, 1.2 and 1.3", version)
	}
	return r, nil
}

// SolverOpenSora returns the name of a version's solver: iddpm or rflow.
func SolverOpenSora(version string) string {
	if _, is := openSora[version].Method.(iddpm); is {
		return "iddpm"
	}
	return "rflow"
}

// Check returns an error if a row with these parameters cannot be sampled. The text starts with the parameter.
func (r Recipe) Check(numInferenceSteps int, video VideoSize) error {
	if least := max(1, r.LeastSteps); numInferenceSteps < least || numInferenceSteps > MaxSteps {
		return fmt.Errorf("num_inference_steps is %d: give %d to %d", numInferenceSteps, least, MaxSteps)
	}
	return r.Method.Check(r.row(numInferenceSteps, video))
}

func (r Recipe) row(numInferenceSteps int, video VideoSize) Row {
	return Row{NumInferenceSteps: numInferenceSteps, Video: video, GuidedChannels: r.GuidedChannels}
}

// New returns the sampler for rows with these parameters.
func (r Recipe) New(numInferenceSteps int, video VideoSize) (Sampler, error) {
	if err := r.Check(numInferenceSteps, video); err != nil {
		return nil, fmt.Errorf("sampler: %w", err)
	}
	return r.Method.New(r.row(numInferenceSteps, video))
}

// iddpm is the method of Open-Sora 1.0 and 1.1.
type iddpm struct{ fp32Tables bool }

// Check accepts every row.
func (iddpm) Check(Row) error { return nil }

// New returns an IDDPM.
func (m iddpm) New(r Row) (Sampler, error) {
	return NewIDDPM(r.NumInferenceSteps, r.GuidedChannels, m.fp32Tables)
}

// rectifiedFlow is the method of Open-Sora 1.2 and 1.3.
type rectifiedFlow struct {
	frames *frameRule
	style  flowStyle
}

// Check returns an error for unsupported numbers of frames.
func (m rectifiedFlow) Check(r Row) error { return m.frames.check(r.Video.Frames) }

// New returns a RectifiedFlow.
func (m rectifiedFlow) New(r Row) (Sampler, error) {
	return &RectifiedFlow{timetable{flowTimestepsOf(r.NumInferenceSteps, *m.frames, r.Video)}, m.style}, nil
}
