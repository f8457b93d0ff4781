package measure

import (
	"math"
	"math/rand/v2"

	"latentbeam/schemas"
)

// spec is one clip of the built-in model's world.
type spec struct {
	color, shape, motion, background string

	size, frames int     // side of a frame in pixels; number of frames
	width        float64 // width of the shape's box in pixels
	speed        float64 // pixels per frame
	dx, dy       float64 // middle of the shape's path, in pixels from the middle of the frame
	noise        float64 // standard deviation of the noise, in steps of 1/255
	blur         int     // passes of a 3x3 box filter
}

// steps are the directions of the motions, as (x, y).
var steps = map[string][2]float64{
	"left": {-1, 0}, "right": {1, 0}, "up": {0, -1}, "down": {0, 1}, "still": {0, 0},
}

// randomSpec draws width, speed and place from the ranges of the training data, for 16 frames of 64 x 64 pixels.
func randomSpec(rng *rand.Rand, color, shape, motion, back string) spec {
	s := spec{color: color, shape: shape, motion: motion, background: back, size: 64, frames: 16}
	between := func(a, b float64) float64 { return a + (b-a)*rng.Float64() }
	switch shape {
	case "circle":
		s.width = between(20, 24)
	case "square":
		s.width = between(18, 22)
	default:
		s.width = between(24, 27)
	}
	s.speed = between(1.6, 2.2)
	step := steps[motion]
	// jitter draws dx or dy so that the shape stays 2 pixels from the border. In 16 frames it moves 7.5 steps to either side of its middle.
	jitter := func(moves bool) float64 {
		room := (64 - 4 - s.width) / 2
		if moves {
			return between(-1, 1) * max(0, min(3, room-s.speed*7.5))
		}
		return between(-1, 1) * min(8, room)
	}
	s.dx, s.dy = jitter(step[0] != 0), jitter(step[1] != 0)
	return s
}

// render draws the clip with anti-aliased edges, then blurs and adds noise.
func (s spec) render(rng *rand.Rand) *schemas.Clip {
	c := &schemas.Clip{Width: s.size, Height: s.size, FPS: 8}
	fore, back := rgbOf(colors, s.color), rgbOf(backgrounds, s.background)
	for i := range s.frames {
		t := float64(i) - float64(s.frames-1)/2 // 0 in the middle of the clip
		cx := float64(s.size)/2 + s.dx + steps[s.motion][0]*s.speed*t
		cy := float64(s.size)/2 + s.dy + steps[s.motion][1]*s.speed*t
		f := make([]float64, 0, s.size*s.size*3)
		for y := range s.size {
			for x := range s.size {
				a := coverage(s.shape, s.width, float64(x)+0.5-cx, float64(y)+0.5-cy)
				for k := range 3 {
					f = append(f, float64(back[k])+a*(float64(fore[k])-float64(back[k])))
				}
			}
		}
		for range s.blur {
			f = boxBlur(f, s.size)
		}
		frame := make([]byte, len(f))
		for k, v := range f {
			frame[k] = byte(math.Min(255, math.Max(0, v+s.noise*rng.NormFloat64()+0.5)))
		}
		c.Frames = append(c.Frames, frame)
	}
	return c
}

// rgbOf returns the colour with a name. It panics if there is none.
func rgbOf(list []named, name string) [3]uint8 {
	for _, n := range list {
		if n.name == name {
			return n.rgb
		}
	}
	panic("no colour " + name)
}

// coverage returns which part of a pixel the shape covers, 0 to 1. The pixel is at (dx, dy) from the middle of the shape's box. Twins, ring
// and bar are shapes that the model does not know.
func coverage(shape string, width, dx, dy float64) float64 {
	clamp := func(v float64) float64 { return math.Min(1, math.Max(0, v)) }
	half := width / 2
	switch shape {
	case "circle":
		return clamp(half + 0.5 - math.Hypot(dx, dy))
	case "square":
		return clamp(half+0.5-math.Abs(dx)) * clamp(half+0.5-math.Abs(dy))
	case "triangle":
		rise := width * 0.88
		side := (rise*math.Abs(dx) - half*(dy+rise/2)) / math.Hypot(rise, half)
		return clamp(0.5-side) * clamp(rise/2+0.5-dy)
	case "twins":
		return clamp(half + 0.5 - math.Hypot(math.Abs(dx)-width*0.7, dy))
	case "ring":
		return clamp(half+0.5-math.Hypot(dx, dy)) * clamp(math.Hypot(dx, dy)-half*0.75)
	case "bar":
		return clamp(half+0.5-math.Abs(dx)) * clamp(half/4+0.5-math.Abs(dy))
	}
	panic("no shape " + shape)
}

// boxBlur returns the frame after a 3x3 box filter.
func boxBlur(f []float64, size int) []float64 {
	out := make([]float64, len(f))
	for y := range size {
		for x := range size {
			for k := range 3 {
				sum := 0.0
				for dy := -1; dy <= 1; dy++ {
					for dx := -1; dx <= 1; dx++ {
						px, py := min(max(x+dx, 0), size-1), min(max(y+dy, 0), size-1)
						sum += f[3*(py*size+px)+k]
					}
				}
				out[3*(y*size+x)+k] = sum / 9
			}
		}
	}
	return out
}
