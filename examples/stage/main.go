// Command watermark is latentbeam with one stage more: it stamps a white square on every frame. Copy this directory
// to begin a program of your own.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"latentbeam"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

func main() {
	os.Exit(latentbeam.Main(stages.Spec{
		Name: "watermark", Doc: "stamps a white square on the frames; size in pixels",
		In: stages.KindFrames, Out: stages.KindFrames,
		Version: 1, // raise it when equal frames get another stamp: it is part of the keys
		New:     open,
	}))
}

// watermark is the stage, and its map in the YAML.
type watermark struct {
	Size int `yaml:"size" json:"size"` // pixels
}

func open(_ *stages.Model, options stages.Options) (stages.Stage, error) {
	w := watermark{Size: 4}
	if err := options.Into(&w); err != nil { // unknown keys and wrong types, with their line
		return nil, err
	}
	if w.Size < 1 {
		return nil, stages.Errorf("size", "size is %d: give 1 or more pixels", w.Size)
	}
	return w, nil
}

// Digest returns "": there are no weights.
func (watermark) Digest() string { return "" }

// Check refuses a row before anything is computed for it.
func (w watermark) Check(row *schemas.PromptRow) error {
	if row.Height < w.Size || row.Width < w.Size {
		return fmt.Errorf("height %d and width %d: the watermark has %d pixels", row.Height, row.Width, w.Size)
	}
	return nil
}

// Need returns 0: this works on the host, not on a device.
func (watermark) Need(*schemas.PromptRow, int) (int64, error) { return 0, nil }

// Capabilities returns none: one device takes a batch, and there are no weights.
func (watermark) Capabilities() stages.Capabilities { return stages.Capabilities{} }

// Run gives each element new frames and leaves the old ones as they are, for a batch may be run again. An error of
// one element would go into that element, by e.Fail.
func (w watermark) Run(_ context.Context, _ kernels.Backend, batch []*stages.Element) error {
	for _, e := range batch {
		stamped := *e.Frames
		stamped.Frames = nil
		for _, frame := range e.Frames.Frames {
			frame = bytes.Clone(frame)
			for y := range w.Size { // three bytes a pixel: R, G, B
				copy(frame[3*y*stamped.Width:], bytes.Repeat([]byte{255}, 3*w.Size))
			}
			stamped.Frames = append(stamped.Frames, frame)
		}
		e.Frames = &stamped
	}
	return nil
}
