package score

import (
	"context"
	"math"
	"slices"
	"strconv"

	"latentbeam/internal/media/resize"
	"latentbeam/kernels"
)

// batchFrames is the number of frames that a tower processes at once. The features of a frame do not depend on it.
const batchFrames = 8

// features computes a tower's features for frames of a clip. Several measures may use them; each frame is computed once.
type features struct {
	dev     kernels.Backend
	read    func(dst []float32, f frame)                          // prepares a frame for the tower
	size    int                                                   // length of a prepared frame
	tower   func(pixels []float32, n int) (kernels.Tensor, error) // (n, C) for n frames, in the scope open at the call
	needed  []func(i int) bool                                    // frames that some measure needs
	seen    int
	pending []float32 // prepared frames that were not computed yet
	at      []int     // their numbers
	of      map[int][]float32
}

// add prepares frame i of the clip, unless that was done before.
func (s *features) add(ctx context.Context, f frame, i int) error {
	if i < s.seen {
		return nil
	}
	s.seen = i + 1
	if !slices.ContainsFunc(s.needed, func(wants func(int) bool) bool { return wants(i) }) {
		return nil
	}
	n := len(s.pending)
	s.pending = append(s.pending, make([]float32, s.size)...)
	s.read(s.pending[n:], f)
	s.at = append(s.at, i)
	if len(s.at) < batchFrames {
		return nil
	}
	return s.flush(ctx)
}

// flush computes the prepared frames.
func (s *features) flush(ctx context.Context) error {
	if len(s.at) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	defer s.dev.Scope()()
	out, err := s.tower(s.pending, len(s.at))
	if err != nil {
		return err
	}
	values := make([]float32, out.Len())
	if err := s.dev.Download(values, out); err != nil {
		return err
	}
	c := out.Dim(1)
	for k, i := range s.at {
		s.of[i] = values[k*c:][:c]
	}
	s.pending, s.at = s.pending[:0], s.at[:0]
	return nil
}

// each returns the features of frames, in the order of frames.
func (s *features) each(ctx context.Context, frames []int) ([][]float32, error) {
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
	out := make([][]float32, len(frames))
	for k, i := range frames {
		out[k] = s.of[i]
	}
	return out, nil
}

// ofFrames is a meter that computes readings from the features of frames.
type ofFrames struct {
	*features
	frames []int // frame numbers, possibly repeated
	next   int
	number func(ctx context.Context, all [][]float32, into map[string]string) error
}

// featureMeter returns a meter for features of frames. Other measures of the clip may share the features.
func (c clip) featureMeter(name string, frames []int, begin func() *features, number func(ctx context.Context, all [][]float32, into map[string]string) error) meter {
	s := c.shared[name]
	if s == nil {
		s = begin()
		s.of = map[int][]float32{}
		c.shared[name] = s
	}
	s.needed = append(s.needed, func(i int) bool { return slices.Contains(frames, i) })
	return &ofFrames{features: s, frames: frames, number: number}
}

func (m *ofFrames) add(ctx context.Context, f frame) error {
	m.next++
	return m.features.add(ctx, f, m.next-1)
}

func (m *ofFrames) read(ctx context.Context, into map[string]string) error {
	all, err := m.each(ctx, m.frames)
	if err != nil {
		return err
	}
	return m.number(ctx, all, into)
}

// allFrames returns the numbers of all frames of a clip.
func (c clip) allFrames() []int {
	out := make([]int, c.frames)
	for i := range out {
		out[i] = i
	}
	return out
}

// middleFrames returns VBench's n frames of a clip: the middle of each of n parts of equal length. A shorter clip returns all
// frames and repeats the last one.
func (c clip) middleFrames(n int) []int {
	parts := min(n, c.frames)
	var out []int
	for i := range parts {
		from, to := i*c.frames/parts, (i+1)*c.frames/parts
		out = append(out, (from+to-1)/2)
	}
	for len(out) < n {
		out = append(out, out[len(out)-1])
	}
	return out
}

// cosine returns the cosine of the angle between two vectors.
func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i, x := range a {
		y := float64(b[i])
		ab += float64(float64(x) * y)
		aa += float64(float64(x) * float64(x))
		bb += float64(y * y)
	}
	const least = 1e-12 // as in torch.nn.functional.normalize
	return ab / (max(math.Sqrt(aa), least) * max(math.Sqrt(bb), least))
}

// consistency is VBench's: the mean, over all frames but the first, of the similarity to the frame before and to the first
// frame, at least 0.
func consistency(all [][]float32) float64 {
	sum := 0.0
	for i := 1; i < len(all); i++ {
		sum += (max(0, cosine(all[i-1], all[i])) + max(0, cosine(all[0], all[i]))) / 2
	}
	return sum / float64(len(all)-1)
}

// precise formats a score with six decimals.
func precise(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }

// normalized has the means and deviations for normalising a tower's pixels.
type normalized struct{ mean, std [3]float32 }

// The published values.
var (
	byCLIP     = normalized{[3]float32{0.48145466, 0.4578275, 0.40821073}, [3]float32{0.26862954, 0.26130258, 0.27577711}}
	byImageNet = normalized{[3]float32{0.485, 0.456, 0.406}, [3]float32{0.229, 0.224, 0.225}}
)

// pixels normalises values from 0 to 255 in place.
func (n normalized) pixels(values []float32) {
	for i, v := range values {
		values[i] = float32(float32(v/255)-n.mean[i%3]) / n.std[i%3]
	}
}

// shorter returns the size of a frame whose shorter side becomes n, as torchvision's Resize does.
func shorter(height, width, n int) resize.Size {
	if height < width {
		return resize.Size{Width: int(float64(n*width) / float64(height)), Height: n}
	}
	return resize.Size{Width: n, Height: int(float64(n*height) / float64(width))}
}

// middle returns the position of torchvision's CenterCrop of n x n pixels: halves are rounded to even.
func middle(of resize.Size, n int) resize.Rect {
	half := func(room int) int { return int(math.RoundToEven(float64(room) / 2)) }
	return resize.Rect{X: half(of.Width - n), Y: half(of.Height - n), Width: n, Height: n}
}
