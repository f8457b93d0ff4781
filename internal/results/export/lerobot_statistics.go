package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"latentbeam/internal/media"
	"latentbeam/schemas/fault"
)

// pixels counts pixels by channel and value, and computes statistics of them.
type pixels [3][256]int64

// count adds the pixels of a frame.
func (p *pixels) count(rgb []byte) {
	for i := 0; i+2 < len(rgb); i += 3 {
		p[0][rgb[i]]++
		p[1][rgb[i+1]]++
		p[2][rgb[i+2]]++
	}
}

// add adds the counts of q.
func (p *pixels) add(q *pixels) {
	for ch := range p {
		for v := range p[ch] {
			p[ch][v] += q[ch][v]
		}
	}
}

// each computes a statistic of each channel and scales it from 0..255 to 0..1.
func (p *pixels) each(statistic func(counts *[256]int64) float64) channels {
	all := make(channels, len(p))
	for ch := range p {
		all[ch] = [][]float64{{statistic(&p[ch]) / 255}}
	}
	return all
}

// quantile returns a function that computes the q-quantile: the smallest value v such that at least the fraction q of all values is
// at most v. 0 is the minimum, 1 the maximum.
func quantile(q float64) func(*[256]int64) float64 {
	return func(counts *[256]int64) float64 {
		total := int64(0)
		for _, n := range counts {
			total += n
		}
		wanted, seen := max(int64(math.Ceil(q*float64(total))), 1), int64(0)
		for v, n := range counts {
			if seen += n; seen >= wanted {
				return float64(v)
			}
		}
		return 0
	}
}

// mean returns the mean of the values.
func mean(counts *[256]int64) float64 {
	sum, total := 0.0, 0.0
	for v, n := range counts {
		sum, total = sum+float64(v)*float64(n), total+float64(n)
	}
	return sum / total
}

// deviation returns the standard deviation of the values.
func deviation(counts *[256]int64) float64 {
	m, sum, total := mean(counts), 0.0, 0.0
	for v, n := range counts {
		d := float64(v) - m
		sum, total = sum+d*d*float64(n), total+float64(n)
	}
	return math.Sqrt(sum / total)
}

// column accumulates statistics of a column of the data.
type column struct{ min, max, sum, squares, count float64 }

// add adds a value.
func (c *column) add(v float64) {
	if c.count == 0 {
		c.min, c.max = v, v
	}
	c.min, c.max = min(c.min, v), max(c.max, v)
	c.sum, c.squares, c.count = c.sum+v, c.squares+v*v, c.count+1
}

// statistics returns the entry of the column in meta/stats.json.
func (c *column) statistics() map[string]any {
	m := c.sum / c.count
	one := func(v float64) []float64 { return []float64{v} }
	return map[string]any{"min": one(c.min), "max": one(c.max), "mean": one(m), "std": one(math.Sqrt(max(c.squares/c.count-m*m, 0))),
		"count": []int64{int64(c.count)}}
}

// read counts the pixels of a copied video. It decodes the video with ffmpeg.
func (p *pixels) read(ctx context.Context, r *videoRow, file string) error {
	video, err := media.OpenSource(ctx, file, media.SourceOptions{AsShown: true})
	if err == nil {
		defer video.Close()
		if info := video.Info(); int64(info.Width) != r.Width || int64(info.Height) != r.Height {
			err = fmt.Errorf("it has %dx%d pixels, and its table says %dx%d", info.Width, info.Height, r.Width, r.Height)
		}
	}
	frames, rgb := int64(0), make([]byte, 3*r.Width*r.Height)
	for ; err == nil; frames++ {
		if err = video.Next(rgb); err == nil {
			p.count(rgb)
		}
	}
	switch {
	case errors.Is(err, media.ErrNoFFmpeg):
		return fault.Usage(fmt.Errorf("export row %s: LeRobot's data sets have statistics of the pixels: %w", r.ID, err))
	case !errors.Is(err, io.EOF):
		return fault.Usage(fmt.Errorf("export row %s: %s: %w", r.ID, r.VideoPath, err))
	case frames-1 != r.NumFrames:
		return fault.Usage(fmt.Errorf("export row %s: %s has %d frames, and its table says %d", r.ID, r.VideoPath, frames-1, r.NumFrames))
	}
	return nil
}
