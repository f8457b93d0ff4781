package video

import (
	"context"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/testdata/tiny/measure"
)

// Measure returns the stage `measure_shapes`: it reads colour, shape and motion from the video as a
// player shows it. Prompt tables that have the columns color, shape and motion are scored by it in the
// summary; that is how the built-in model is judged.
func Measure() stages.Spec {
	return stages.Spec{
		Name:     measureName,
		Doc:      "reads color, shape and motion back from the built-in model's videos",
		In:       stages.KindVideo,
		Out:      stages.KindVideo,
		Looks:    true,
		Version:  1,
		Readings: []string{"color", "shape", "motion"},
		New:      func(*stages.Model, stages.Options) (stages.Stage, error) { return shapes{}, nil },
	}
}

// measureName is the name of the stage.
const measureName = "measure_shapes"

type shapes struct{}

// Digest returns "": nothing is learned here.
func (shapes) Digest() string { return "" }

// Check accepts every row.
func (shapes) Check(*schemas.PromptRow) error { return nil }

// Need is nothing: the measurement works on the host.
func (shapes) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }

// measureOfShapes is what the stage reads.
var measureOfShapes = stages.Measure{Name: "shapes", Version: 1, Readings: []string{"color", "shape", "motion"}}

// Capabilities are what it reads.
func (shapes) Capabilities() stages.Capabilities {
	return stages.Capabilities{Measures: []stages.Measure{measureOfShapes}}
}

// Run measures every video whose encoder tells what a player shows.
func (shapes) Run(ctx context.Context, _ kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		shown, err := Shown(ctx, e)
		if err != nil {
			if fault.ClassOf(err) != fault.ClassRow {
				return err
			}
			e.Fail(measureName, err)
			continue
		}
		got := measure.Measure(shown)
		e.Look(measureOfShapes, map[string]string{"color": got.Color, "shape": got.Shape, "motion": got.Motion})
	}
	return nil
}
