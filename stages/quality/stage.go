package quality

import (
	"context"
	"errors"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/vae"
)

// name is that of the stage.
const name = "quality"

// The names of the readings. The report compares Hash to find clips that look alike.
const (
	sceneCuts, sceneChange                   = "scene_cuts", "scene_change"
	motionName, sharpnessName, luminanceName = "motion", "sharpness", "luminance"
	blackRows, blackColumns                  = "black_rows", "black_columns"
	Hash                                     = "phash"
)

// options is the stage's map in the YAML.
type options struct {
	CutThreshold float64 `yaml:"cut_threshold" json:"cut_threshold"` // content difference from which on a frame begins a scene
	BlackLevel   int     `yaml:"black_level" json:"black_level"`     // mean grey up to which a row or column is black
}

// Spec returns the stage `quality`.
func Spec() stages.Spec {
	return stages.Spec{
		Name: name,
		Doc: "reads scene_cuts, scene_change, motion, sharpness, luminance, black_rows, black_columns and phash off the frames of media; " +
			"cut_threshold: 27, black_level: 24",
		In:      stages.KindMedia,
		Out:     stages.KindMedia,
		Version: 1,
		Params: []stages.Param{stages.ParamMedia, stages.ParamHeight, stages.ParamWidth, stages.ParamNumFrames, stages.ParamFPS,
			stages.ParamCut},
		Readings: []string{sceneCuts, sceneChange, motionName, sharpnessName, luminanceName, blackRows, blackColumns, Hash, schemas.ReadingDecodeErrors,
			schemas.ReadingTransfer},
		New: open,
	}
}

func open(_ *stages.Model, o stages.Options) (stages.Stage, error) {
	opts := options{CutThreshold: 27, BlackLevel: 24}
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if !(opts.CutThreshold > 0 && opts.CutThreshold <= 255) {
		return nil, stages.Errorf("cut_threshold", "%s: cut_threshold is %v: give a number above 0, up to 255", name, opts.CutThreshold)
	}
	if opts.BlackLevel < 0 || opts.BlackLevel > 255 {
		return nil, stages.Errorf("black_level", "%s: black_level is %d: give 0 to 255", name, opts.BlackLevel)
	}
	return stage{opts}, nil
}

type stage struct{ opts options }

// Digest returns "": nothing is learned here.
func (stage) Digest() string { return "" }

// Check accepts every row: what media can be is their reader's to say.
func (stage) Check(*schemas.PromptRow) error { return nil }

// Need is nothing: the measures are taken on the host.
func (stage) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }

// Capabilities are none.
func (stage) Capabilities() stages.Capabilities { return stages.Capabilities{} }

// Run measures the elements one after the other. A file that cannot be read fails its element.
func (s stage) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		var bad *vae.FootageError
		switch err := s.measure(ctx, dev, e); {
		case errors.As(err, &bad) && ctx.Err() == nil:
			e.Fail(name, fault.Row(bad.Err))
		case err != nil:
			return err
		}
	}
	return nil
}

// measure gives one element its readings.
func (s stage) measure(ctx context.Context, dev kernels.Backend, e *stages.Element) error {
	frames, err := vae.OpenFootage(ctx, dev, e.Media, &e.Row)
	if err != nil {
		return err
	}
	defer frames.Close()
	readings, err := s.opts.measure(e.Row.NumFrames, e.Row.Height, e.Row.Width, frames.At)
	if err != nil {
		return err
	}
	e.Read(readings)
	e.Read(frames.Readings())
	return nil
}
