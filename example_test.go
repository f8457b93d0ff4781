package latentbeam_test

import (
	"os"

	"latentbeam"
	"latentbeam/stages"
)

// A program that adds a stage of its own. The folder examples has complete programs.
func ExampleMain() {
	os.Exit(latentbeam.Main(stages.Spec{
		Name: "watermark", Doc: "stamps a white square on the frames",
		In: stages.KindFrames, Out: stages.KindFrames, Version: 1,
		New: func(*stages.Model, stages.Options) (stages.Stage, error) {
			return nil, nil // a stages.Stage
		},
	}))
}
