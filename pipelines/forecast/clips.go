package forecast

import (
	"cmp"
	"slices"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// ClipsOf counts the clips of one shape.
type ClipsOf struct {
	Shape schemas.Bucket
	Rows  int64
	Bytes int64 // size of their latents in the tables, as float32
}

// Clips lists the shapes of the clips that the job cuts from its media, sorted by size and length.
func (j *Predictor) Clips(clips map[schemas.Bucket]int64) (all []ClipsOf, err error) {
	for shape, rows := range clips {
		row := schemas.PromptRow{Width: shape.Width, Height: shape.Height, NumFrames: shape.NumFrames}
		c := ClipsOf{Shape: shape, Rows: rows}
		for _, s := range j.Engine.Schedule.Steps {
			latents := s.Capabilities().LatentShape
			if latents == nil || !j.Engine.Keep[stages.KindLatents] {
				continue
			}
			dims, err := latents(&row)
			if err != nil {
				return nil, err
			}
			values := int64(1)
			for _, d := range dims {
				values *= int64(d)
			}
			c.Bytes = rows * bytesPerValue * values
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b ClipsOf) int {
		return cmp.Or(a.Shape.Width-b.Shape.Width, a.Shape.Height-b.Shape.Height, a.Shape.NumFrames-b.Shape.NumFrames)
	})
	return all, nil
}

// bytesPerValue is the size of a float32.
const bytesPerValue = 4
