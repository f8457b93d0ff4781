package pipelines_test

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"os"
	"path/filepath"

	"latentbeam/internal/config"
	"latentbeam/kernels"
	"latentbeam/pipelines"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
)

// Adding a stage takes one file and one line. This file is the whole of it: a stage that stamps a white
// square on every frame. A stage of the house lies in a package of its own beside stages/guard, and its line
// stands in stages/catalog; a program of your own appends it to the catalogue, as Example_watermark does.

// watermarkSpec describes the stage: its name in the YAML, the kind it takes and the kind it gives.
func watermarkSpec() stages.Spec {
	return stages.Spec{
		Name:    "watermark",
		Doc:     "stamps a white square on the frames; size in pixels",
		In:      stages.KindFrames,
		Out:     stages.KindFrames,
		Version: 1, // raise it when equal frames get another stamp: it is part of the keys
		New:     openWatermark,
	}
}

// watermarkOptions is the stage's map in the YAML. Other keys and other types are errors with their line.
type watermarkOptions struct {
	Size int `yaml:"size" json:"size"` // pixels
}

func openWatermark(_ *stages.Model, o stages.Options) (stages.Stage, error) {
	opts := watermarkOptions{Size: 4}
	if err := o.Into(&opts); err != nil {
		return nil, err
	}
	if opts.Size < 1 {
		return nil, fmt.Errorf("watermark: size is %d: give 1 or more pixels", opts.Size)
	}
	return watermark{opts.Size}, nil
}

type watermark struct{ size int }

// Digest returns "": there are no weights.
func (watermark) Digest() string { return "" }

// Capabilities are none: it is a plain stage.
func (watermark) Capabilities() stages.Capabilities { return stages.Capabilities{} }

// Check refuses a row before anything is computed for it.
func (w watermark) Check(row *schemas.PromptRow) error {
	if row.Height < w.size || row.Width < w.size {
		return fmt.Errorf("height %d and width %d: the watermark has %d pixels", row.Height, row.Width, w.size)
	}
	return nil
}

// Need is nothing: this works on the host, not on a device.
func (watermark) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }

// Run gives each element new frames and leaves the old ones as they are, for a batch may be run again. What
// is wrong with one element would go into that element, by e.Fail.
func (w watermark) Run(_ context.Context, _ kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		stamped := &schemas.Clip{Width: e.Frames.Width, Height: e.Frames.Height, FPS: e.Frames.FPS}
		for _, frame := range e.Frames.Frames {
			frame = bytes.Clone(frame)
			for y := range w.size {
				row := frame[3*y*stamped.Width:] // RGB
				copy(row, bytes.Repeat([]byte{255}, 3*w.size))
			}
			stamped.Frames = append(stamped.Frames, frame)
		}
		e.Frames = stamped
	}
	return nil
}

// The job names the stage where it belongs. One frame makes an image, in which every pixel can be read.
const watermarkJob = `
version: 1
model: tiny
input: {prompts: prompts.txt}
defaults: {height: 16, width: 16, num_frames: 1, num_inference_steps: 2}
stages:
  - encode_text: {}
  - denoise: {}
  - decode_vae: {}
  - watermark: {size: 3}
  - encode_video: {}
output: {path: out, write: [video]}
`

func Example_watermark() {
	leave := enterTemporaryDirectory()
	defer leave()
	check(os.WriteFile("prompts.txt", []byte("a red circle moves left\n"), 0o644))

	cfg, err := config.Parse("job.yaml", watermarkJob, nil)
	check(err)
	job, err := pipelines.Open(cfg, pipelines.Options{
		Specs: append(catalog.All(), watermarkSpec()), // the one line
	})
	check(err)
	defer job.Close()
	check(job.Attach(context.Background()))
	result, err := job.Run(context.Background(), nil)
	check(err)
	fmt.Println("done:", result.Totals.Done)

	files, err := filepath.Glob("out/videos/*/*.png")
	check(err)
	file, err := os.Open(files[0])
	check(err)
	defer file.Close()
	img, err := png.Decode(file)
	check(err)
	for _, at := range []int{0, 2, 3} {
		r, g, b, _ := img.At(at, at).RGBA()
		fmt.Printf("pixel %d is white: %v\n", at, min(r, g, b) == 0xffff)
	}
	// Output:
	// done: 1
	// pixel 0 is white: true
	// pixel 2 is white: true
	// pixel 3 is white: false
}

// enterTemporaryDirectory makes a new directory the current one until leave is called.
func enterTemporaryDirectory() (leave func()) {
	before, err := os.Getwd()
	check(err)
	dir, err := os.MkdirTemp("", "latentbeam-example-")
	check(err)
	check(os.Chdir(dir))
	return func() {
		check(os.Chdir(before))
		check(os.RemoveAll(dir))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
