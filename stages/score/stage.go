package score

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/vae"
)

// The names of the stages. `quality` is older: it takes media and has all measures without weights.
const (
	scoreName   = "score"
	qualityName = "quality"
)

// options are the options of `score` in the YAML.
type options struct {
	By           []string          `yaml:"by" json:"by"`                       // names of measures
	Weights      map[string]string `yaml:"weights" json:"-"`                   // paths of weights by name
	CutThreshold float64           `yaml:"cut_threshold" json:"cut_threshold"` // content difference from which a frame starts a scene
	BlackLevel   int               `yaml:"black_level" json:"black_level"`     // mean grey up to which a row or column is black

	opened openTowers
}

// qualityOptions are the options of `quality`. Their JSON is part of the keys of earlier releases.
type qualityOptions struct {
	CutThreshold float64 `yaml:"cut_threshold" json:"cut_threshold"` // content difference from which a frame starts a scene
	BlackLevel   int     `yaml:"black_level" json:"black_level"`     // mean grey up to which a row or column is black
}

// withoutWeights are the measures that need no weights.
var withoutWeights = []string{sceneCuts, motionName, sharpnessName, luminanceName, "black_bars", Hash}

// Spec returns the stage `score`. It takes videos and media.
func Spec() stages.Spec {
	var readings []string
	for _, m := range measures {
		readings = append(readings, m.readings...)
	}
	return stages.Spec{
		Name: scoreName,
		Doc: "reads scores off videos or media; by: " + list(Names()) +
			"; weights: {NAME: PATH}, cut_threshold: 27, black_level: 24",
		MeasuresOnly: true,
		Version:      1,
		Readings:     append(readings, ofSource.Readings...),
		New:          openScore,
	}
}

// Quality returns the stage `quality`.
func Quality() stages.Spec {
	return stages.Spec{
		Name: qualityName,
		Doc: "reads scene_cuts, scene_change, motion, sharpness, luminance, black_rows, black_columns and phash off the frames of media; " +
			"cut_threshold: 27, black_level: 24",
		In:           stages.KindMedia,
		Out:          stages.KindMedia,
		MeasuresOnly: true,
		Version:      1,
		Params: []stages.Param{stages.ParamMedia, stages.ParamHeight, stages.ParamWidth, stages.ParamNumFrames, stages.ParamFPS,
			stages.ParamCut},
		Readings: []string{sceneCuts, sceneChange, motionName, sharpnessName, luminanceName, blackRows, blackColumns, Hash, schemas.ReadingDecodeErrors,
			schemas.ReadingTransfer},
		New: openQuality,
	}
}

func openScore(_ *stages.Model, o stages.Options) (stages.Stage, error) {
	opts := options{By: slices.Clone(withoutWeights), CutThreshold: 27, BlackLevel: 24}
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if len(opts.By) == 0 {
		return nil, stages.Errorf("by", "score: by is empty: name measures; there are %s", list(Names()))
	}
	return opts.stage(scoreName)
}

func openQuality(_ *stages.Model, o stages.Options) (stages.Stage, error) {
	opts := qualityOptions{CutThreshold: 27, BlackLevel: 24}
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	all := options{By: withoutWeights, CutThreshold: opts.CutThreshold, BlackLevel: opts.BlackLevel}
	return all.stage(qualityName)
}

// stage opens the measures.
func (o *options) stage(name string) (stages.Stage, error) {
	if !(o.CutThreshold > 0 && o.CutThreshold <= 255) {
		return nil, stages.Errorf("cut_threshold", "%s: cut_threshold is %v: give a number above 0, up to 255", name, o.CutThreshold)
	}
	if o.BlackLevel < 0 || o.BlackLevel > 255 {
		return nil, stages.Errorf("black_level", "%s: black_level is %d: give 0 to 255", name, o.BlackLevel)
	}
	for _, w := range slices.Sorted(maps.Keys(o.Weights)) {
		if publishedWeights[w] == "" {
			return nil, stages.Errorf("weights", "%s: weights names %q; there are %s", name, w, list(slices.Sorted(maps.Keys(publishedWeights))))
		}
	}
	all, err := openMeasures(o)
	return &stage{name: name, measures: all, towers: o.opened}, err
}

type stage struct {
	name       string
	measures   []*open
	towers     openTowers
	rehearsals nn.Rehearsals
}

// Digest identifies the weights of the measures, "" if nothing is learned.
func (s *stage) Digest() string {
	var all []string
	for _, m := range s.measures {
		if m.Weights != "" {
			all = append(all, m.Weights)
		}
	}
	return strings.Join(all, " ")
}

// Check accepts every row: the reader of the media reports errors.
func (*stage) Check(*schemas.PromptRow) error { return nil }

// Capabilities lists the measures, and how their weights are loaded.
func (s *stage) Capabilities() stages.Capabilities {
	c := stages.Capabilities{Measures: []stages.Measure{ofSource}}
	learned := false
	for _, m := range s.measures {
		c.Measures = append(c.Measures, m.Measure)
		learned = learned || m.load != nil
	}
	if learned {
		c.Loading, c.Cost = &stages.Loading{Load: s.load}, s.cost
	}
	return c
}

// load loads all weights to a device.
func (s *stage) load(dev kernels.Backend) error {
	for _, m := range s.measures {
		if m.load == nil {
			continue
		}
		if err := m.load(dev); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// Run measures the elements one after another. An element whose file cannot be read fails.
func (s *stage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	ahead := decodeAhead(ctx, s.toDecode(batch))
	defer ahead.close()
	for _, e := range batch {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		var some []*open
		for _, m := range s.measures {
			if e.Lacks(m.Measure) {
				some = append(some, m)
			}
		}
		look := s.measureMedia
		if e.Video != nil {
			look = func(ctx context.Context, dev kernels.Backend, e *stages.Element, some []*open) error {
				return s.measureVideo(ctx, dev, e, some, ahead)
			}
		}
		var bad *vae.FootageError
		switch err := look(ctx, dev, e, some); {
		case errors.As(err, &bad) && ctx.Err() == nil:
			e.Fail(s.name, fault.Row(bad.Err))
		case err != nil:
			return err
		}
	}
	return nil
}

// toDecode returns the elements whose videos must be decoded.
func (s *stage) toDecode(batch []*stages.Element) (all []*stages.Element) {
	for _, e := range batch {
		if e.Video != nil && e.Video.Recon == nil && slices.ContainsFunc(s.measures, func(m *open) bool { return e.Lacks(m.Measure) }) {
			all = append(all, e)
		}
	}
	return all
}

// measureVideo measures what a player shows of the element's video.
func (s *stage) measureVideo(ctx context.Context, dev kernels.Backend, e *stages.Element, some []*open, ahead *ahead) error {
	e.AddReadings(ofSource, nil) // a published file has no decoding errors
	if len(some) == 0 {
		return nil
	}
	shown, err := ahead.shown(ctx, e)
	if fault.ClassOf(err) == fault.ClassRow && err != nil {
		return &vae.FootageError{Err: err}
	}
	if err != nil {
		return err
	}
	c := clip{frames: len(shown.Frames), height: shown.Height, width: shown.Width, fps: shown.FPS, row: &e.Row}
	return s.measureInto(ctx, dev, e, some, c, func(rgb []byte, i int) error {
		copy(rgb, shown.Frames[i])
		return nil
	})
}

// measureMedia measures the element's media, as an autoencoder would see them.
func (s *stage) measureMedia(ctx context.Context, dev kernels.Backend, e *stages.Element, some []*open) error {
	if len(some) == 0 && !e.Lacks(ofSource) {
		return nil
	}
	frames, err := vae.OpenFootage(ctx, dev, e.Media, &e.Row)
	if err != nil {
		return err
	}
	defer frames.Close()
	c := clip{frames: e.Row.NumFrames, height: e.Row.Height, width: e.Row.Width, fps: e.Row.FPS, row: &e.Row}
	values := make([]float32, c.height*c.width*3)
	err = s.measureInto(ctx, dev, e, some, c, func(rgb []byte, i int) error {
		if err := frames.At(values, i); err != nil {
			return err
		}
		for k, v := range values {
			rgb[k] = level(v)
		}
		return nil
	})
	if err == nil {
		e.AddReadings(ofSource, frames.Readings())
	}
	return err
}

func (s *stage) measureInto(ctx context.Context, dev kernels.Backend, e *stages.Element, some []*open, c clip, next func(rgb []byte, i int) error) error {
	got, err := measureClip(ctx, dev, some, c, next)
	if err != nil {
		return err
	}
	for i, m := range some {
		e.AddReadings(m.Measure, got[i])
	}
	return nil
}

func list(names []string) string { return strings.Join(names, ", ") }
