package score

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"latentbeam/internal/config"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// measure is a score that a job can name.
type measure struct {
	name, doc string
	version   int      // raised whenever equal clips may give other readings
	readings  []string // names of its readings
	params    []stages.Param
	weights   []string                          // names of the files that it needs, from the option `weights`
	options   func(o *options) any              // options that its readings depend on; nil: none
	open      func(o *options) (*opened, error) // opens the measure without computing
}

// opened is a measure that is ready for clips, on all devices of a process.
type opened struct {
	weights string // digest of its weights, "" if nothing is learned
	begin   func(ctx context.Context, dev kernels.Backend, c clip) (meter, error)
	load    func(dev kernels.Backend) error // loads the weights to a device; nil: there are none
	// rehearse returns the work of the network for a clip; false: it does nothing, or the size of the clip is not known. Nil:
	// no network.
	rehearse func(row *schemas.PromptRow) (rehearsal, bool)
}

// The names of readings. The report compares Hash to find clips that look alike.
const (
	sceneCuts, sceneChange                   = "scene_cuts", "scene_change"
	motionName, sharpnessName, luminanceName = "motion", "sharpness", "luminance"
	blackRows, blackColumns                  = "black_rows", "black_columns"
	Hash                                     = "phash"
)

// measures lists all measures, in the order in which they are computed.
var measures = []measure{
	{name: sceneCuts, doc: "cuts by PySceneDetect's content detector", version: 1, readings: []string{sceneCuts, sceneChange},
		options: func(o *options) any {
			return struct {
				CutThreshold float64 `json:"cut_threshold"`
			}{o.CutThreshold}
		},
		open: func(o *options) (*opened, error) {
			return simple(func(clip) plain { return &content{threshold: o.CutThreshold} }), nil
		}},
	{name: motionName, doc: "mean difference of grey between frames", version: 1, readings: []string{motionName},
		open: func(*options) (*opened, error) { return simple(func(clip) plain { return &motion{} }), nil }},
	{name: sharpnessName, doc: "variance of the Laplacian", version: 1, readings: []string{sharpnessName},
		open: func(*options) (*opened, error) { return simple(func(clip) plain { return &sharpness{} }), nil }},
	{name: luminanceName, doc: "mean grey", version: 1, readings: []string{luminanceName},
		open: func(*options) (*opened, error) { return simple(func(clip) plain { return &luminance{} }), nil }},
	{name: "black_bars", doc: "black rows and columns at the edges", version: 1, readings: []string{blackRows, blackColumns},
		options: func(o *options) any {
			return struct {
				BlackLevel int `json:"black_level"`
			}{o.BlackLevel}
		},
		open: func(o *options) (*opened, error) {
			return simple(func(clip) plain { return &bars{level: o.BlackLevel} }), nil
		}},
	{name: Hash, doc: "perceptual hash of the first, the middle and the last frame", version: 1, readings: []string{Hash},
		open: func(*options) (*opened, error) {
			return simple(func(c clip) plain { return &hash{frames: c.frames} }), nil
		}},
	{name: flickeringName, doc: "1 less the mean difference between frames", version: 1, readings: []string{flickeringName},
		open: func(*options) (*opened, error) { return simple(func(clip) plain { return &flickering{} }), nil }},
	{name: subjectName, doc: "likeness of frames to DINO", version: 1, readings: []string{subjectName}, weights: []string{dinoB16},
		open: openSubject},
	{name: backgroundName, doc: "likeness of frames to CLIP", version: 1, readings: []string{backgroundName}, weights: []string{clipB32},
		open: openBackground},
	{name: aestheticName, doc: "LAION's aesthetic predictor", version: 1, readings: []string{aestheticName},
		weights: []string{clipL14, aestheticHead}, open: openAesthetic},
	{name: similarityName, doc: "likeness of frames and the prompt to CLIP", version: 1, readings: []string{similarityName},
		weights: []string{clipB32}, params: []stages.Param{stages.ParamPrompt}, open: openSimilarity},
	{name: appearanceName, doc: "likeness of frames and the column style to CLIP", version: 1, readings: []string{appearanceName},
		weights: []string{clipB32}, params: []stages.Param{stages.ColumnParam(styleColumn)}, open: openAppearance},
	{name: imagingName, doc: "quality of frames by MUSIQ", version: 1, readings: []string{imagingName}, weights: []string{musiqSPAQ},
		open: openImaging},
	{name: smoothnessName, doc: "likeness of every second frame to what AMT makes of those around it", version: 1,
		readings: []string{smoothnessName}, weights: []string{amtS}, open: openSmoothness},
	{name: dynamicName, doc: "whether things move, by RAFT", version: 1, readings: []string{dynamicName, flowName}, weights: []string{raftThings},
		open: openDynamic},
}

// ofSource is the measure for readings about the media themselves. A job does not name it.
var ofSource = stages.Measure{Name: "source", Version: 1, Readings: []string{schemas.ReadingDecodeErrors, schemas.ReadingTransfer}}

// simple opens a measure without weights.
func simple(begin func(c clip) plain) *opened {
	return &opened{begin: func(_ context.Context, _ kernels.Backend, c clip) (meter, error) { return plainMeter{begin(c)}, nil }}
}

// measureByName returns the measure with this name.
func measureByName(name string) (*measure, bool) {
	for i := range measures {
		if measures[i].name == name {
			return &measures[i], true
		}
	}
	return nil, false
}

// Names returns the names of all measures, as in the option `by`.
func Names() (names []string) {
	for _, m := range measures {
		names = append(names, m.name)
	}
	return names
}

// WithoutWeights returns the names of the measures that need no weights.
func WithoutWeights() []string { return slices.Clone(withoutWeights) }

// open is an opened measure of a stage.
type open struct {
	stages.Measure
	*opened
}

// openMeasures opens the measures of a stage.
func openMeasures(o *options) (all []*open, err error) {
	for i, name := range o.By {
		m, known := measureByName(name)
		if !known {
			err := stages.Errorf("by", "score: by names %q; there are %s", name, list(Names()))
			if near := config.Near(name, Names()); near != "" {
				err.Fix = fmt.Sprintf("did you mean %s?", near)
			}
			return nil, err
		}
		for _, before := range o.By[:i] {
			if before == name {
				return nil, stages.Errorf("by", "score: by names %q twice", name)
			}
		}
		for _, w := range m.weights {
			if o.Weights[w] == "" {
				return nil, stages.Errorf("weights", "score: %s needs weights: write weights: {%s: PATH}", name, w)
			}
		}
		at, err := m.open(o)
		if err != nil {
			return nil, err
		}
		one := &open{stages.Measure{Name: m.name, Version: m.version, Params: m.params, Readings: m.readings, Weights: at.weights}, at}
		if m.options != nil {
			js, err := json.Marshal(m.options(o))
			if err != nil {
				return nil, fmt.Errorf("score: options of %s: %w", name, err)
			}
			one.Options = string(js)
		}
		all = append(all, one)
	}
	return all, nil
}
