package pipelines

import (
	"cmp"
	"slices"
	"strings"

	"latentbeam/schemas"
	"latentbeam/stages"
)

// clipShape is the shape of a row's clip alone.
func clipShape(r schemas.PromptRow) schemas.Bucket {
	return schemas.Bucket{Width: r.Width, Height: r.Height, NumFrames: r.NumFrames}
}

// ClipsOf is the clips of one shape.
type ClipsOf struct {
	Shape schemas.Bucket
	Rows  int64
	Bytes int64 // of their latents in the tables, float32
}

// Histogram lists the shapes of the clips that the job cuts of its media, by size and length.
func (j *Job) Histogram(p Plan) (all []ClipsOf, err error) {
	for shape, rows := range p.Clips {
		row := schemas.PromptRow{Width: shape.Width, Height: shape.Height, NumFrames: shape.NumFrames}
		c := ClipsOf{Shape: shape, Rows: rows}
		for _, s := range j.engine.Steps {
			latents := s.Capabilities().LatentShape
			if latents == nil || !j.engine.Keep[stages.KindLatents] {
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

// bytesPerValue is that of float32.
const bytesPerValue = 4

// drop counts a row that the job's own rules leave out. The rule stands at the end of the message.
func (p *Plan) drop(e *stages.Element) {
	p.Dropped++
	rule := e.Failed.Message[strings.LastIndexByte(e.Failed.Message, '(')+1:]
	p.Reasons[strings.TrimSuffix(rule, ")")]++
}
