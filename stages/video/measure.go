package video

import (
	"context"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/testdata/tiny/measure"
)

// Measure returns the stage `measure_shapes`: it measures colour, shape and motion in the video as a player shows it. If the
// prompt table has the columns color, shape and motion, the summary compares them. The built-in model is evaluated that way.
func Measure() stages.Spec {
	return stages.Spec{
		Name:         measureName,
		Doc:          "reads color, shape and motion back from the built-in model's videos",
		In:           stages.KindVideo,
		Out:          stages.KindVideo,
		MeasuresOnly: true,
		Version:      1,
		Readings:     []string{"color", "shape", "motion"},
		New:          func(*stages.Model, stages.Options) (stages.Stage, error) { return shapes{}, nil },
	}
}

// measureName is the name of the stage.
const measureName = "measure_shapes"

type shapes struct{}

// Digest returns "": nothing is learned.
func (shapes) Digest() string { return "" }

// Check accepts every row.
func (shapes) Check(*schemas.PromptRow) error { return nil }

// Need returns 0: the measurement works on the host.
func (shapes) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }

// measureOfShapes is the measure of the stage.
var measureOfShapes = stages.Measure{Name: "shapes", Version: 1, Readings: []string{"color", "shape", "motion"}}

// Capabilities lists the measure.
func (shapes) Capabilities() stages.Capabilities {
	return stages.Capabilities{Measures: []stages.Measure{measureOfShapes}}
}

// Run measures every video whose decoded frames are known.
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
		e.AddReadings(measureOfShapes, map[string]string{"color": got.Color, "shape": got.Shape, "motion": got.Motion})
	}
	return nil
}
