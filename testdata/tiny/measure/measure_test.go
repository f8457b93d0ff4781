package measure

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"latentbeam/internal/media"
	"latentbeam/schemas"
)

// compress returns the clip as a player shows it after H.264 with a quantiser.
func compress(t *testing.T, c *schemas.Clip, qp int) *schemas.Clip {
	t.Helper()
	e, err := media.New("h264", "embedded", media.Options{QP: qp})
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Encode(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return out.Recon
}

// forAll calls visit with all 270 combinations of a colour, a shape, a motion and a background.
func forAll(visit func(color, shape, motion, back string)) {
	for _, color := range namesOf(colors) {
		for _, shape := range shapesOf() {
			for _, motion := range motionsOf() {
				for _, back := range namesOf(backgrounds) {
					visit(color, shape, motion, back)
				}
			}
		}
	}
}

// TestReadsTheWholeWorld: Measure reads colour, shape, motion and background of a clip, as drawn and after noise, blur and compression.
// Each condition tests every fifth combination, so that five conditions in a row test all of them.
func TestReadsTheWholeWorld(t *testing.T) {
	for i, k := range []struct {
		noise float64
		blur  int
		qp    int // quantiser of the compression; 0: not compressed
	}{{0, 0, 0}, {0, 0, 20}, {12, 1, 0}, {4, 1, 20}, {6, 0, 24}, {3, 1, 28}, {6, 2, 24}} {
		t.Run(fmt.Sprintf("noise=%v,blur=%d,qp=%d", k.noise, k.blur, k.qp), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			n, overlap, margin, off := 0, 1.0, 1.0, 0.0
			forAll(func(color, shape, motion, back string) {
				if n++; n%5 != i%5 {
					return
				}
				s := randomSpec(rng, color, shape, motion, back)
				s.noise, s.blur = k.noise, k.blur
				c := s.render(rng)
				if k.qp > 0 {
					c = compress(t, c, k.qp)
				}
				r := Measure(c)
				if !score(color, shape, motion, r).right() || r.Background != back {
					t.Errorf("a clip of %s %s %s on %s is read as %+v", color, shape, motion, back, r)
				}
				own := r.Features.Overlap[shape]
				overlap, off = min(overlap, own), max(off, r.Features.ColorDistance)
				for other, v := range r.Features.Overlap {
					if other != shape {
						margin = min(margin, own-v)
					}
				}
			})
			t.Logf("overlap with the right shape at least %.3f, and %.3f more than with any other; colours off by at most %.1f",
				overlap, margin, off)
		})
	}
}

// TestReadsOtherSizes: Measure reads green shapes that move up, in frames of other sides. Widths are in sides of the frame.
func TestReadsOtherSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	for _, size := range []int{48, 96, 128} {
		for _, shape := range shapesOf() {
			for _, width := range []float64{0.22, 0.3, 0.45} {
				s := spec{color: "green", shape: shape, motion: "up", background: "grey"}
				s.size, s.frames, s.width, s.speed, s.noise = size, 16, width*float64(size), 0.025*float64(size), 4
				r := Measure(compress(t, s.render(rng), 22))
				if !score("green", shape, "up", r).right() {
					t.Errorf("in a frame of %d pixels, a green %s of width %.2f that moves up is read as %+v", size, shape, width, r)
				}
			}
		}
	}
}

// TestSurvivesArtefacts: Measure reads a clip in which three of sixteen frames show one colour only and all others have a second spot of
// 5 x 5 pixels.
func TestSurvivesArtefacts(t *testing.T) {
	rng, n := rand.New(rand.NewPCG(3, 0)), 0
	forAll(func(color, shape, motion, back string) {
		if n++; n%4 != 0 { // 4 has no factor in common with the 5 motions and 3 backgrounds, so all words occur
			return
		}
		s := randomSpec(rng, color, shape, motion, back)
		s.blur = 1
		c := s.render(rng)
		for _, i := range []int{0, 7, 12} {
			copy(c.Frames[i], bytes.Repeat(c.Frames[i][:3], len(c.Frames[i])/3))
		}
		for _, f := range c.Frames {
			for y := 4; y < 9; y++ {
				copy(f[3*(64*y+4):], bytes.Repeat([]byte{9, 200, 200}, 5))
			}
		}
		if r := Measure(c); !score(color, shape, motion, r).right() {
			t.Errorf("a clip of %s %s %s on %s is read as %+v", color, shape, motion, back, r)
		}
	})
}

// TestUnknown: Measure says Unknown about a clip that does not show one shape of the model's world, and about each property that a clip
// does not have.
func TestUnknown(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 0))
	// draw returns a clip of a red circle that moves left on black, after a change.
	draw := func(change func(s *spec)) *schemas.Clip {
		s := randomSpec(rng, "red", "circle", "left", "black")
		change(&s)
		return s.render(rng)
	}
	// edit changes every frame of a clip.
	edit := func(c *schemas.Clip, change func(f []byte, i int)) *schemas.Clip {
		for i, f := range c.Frames {
			change(f, i)
		}
		return c
	}
	all := Reading{Color: Unknown, Shape: Unknown, Motion: Unknown, Background: Unknown}
	black := all
	black.Background = "black"
	for name, k := range map[string]struct {
		clip *schemas.Clip
		want Reading
	}{
		"no clip":  {&schemas.Clip{}, all},
		"blank":    {draw(func(s *spec) { s.width = 0.1 }), black},
		"noise":    {edit(draw(func(*spec) {}), func(f []byte, _ int) { fillNoise(rng, f) }), all},
		"spots":    {edit(draw(func(*spec) {}), func(f []byte, _ int) { fillSpots(rng, f) }), black},
		"twins":    {draw(func(s *spec) { s.shape, s.width = "twins", 16 }), black},
		"too big":  {draw(func(s *spec) { s.width, s.shape, s.motion = 60, "square", "still" }), black},
		"vanishes": {edit(draw(func(*spec) {}), vanishHalfway), black},
	} {
		r := Measure(k.clip)
		r.Features = Features{}
		if fmt.Sprint(r) != fmt.Sprint(k.want) {
			t.Errorf("%s: got %+v, want %+v", name, r, k.want)
		}
	}
	if r := Measure(draw(func(s *spec) { s.shape = "bar" })); r.Shape != Unknown || r.Motion != "left" {
		t.Errorf("a bar that moves left: got %+v, want an unknown shape", r)
	}
	if r := Measure(draw(func(s *spec) { s.shape = "ring" })); r.Shape != Unknown {
		t.Errorf("a ring: got %+v, want an unknown shape", r)
	}
	diagonal := draw(func(s *spec) { s.dx, s.dy = 0, 0 })
	for i, f := range diagonal.Frames {
		diagonal.Frames[i] = shiftDown(f, 64, 2*i-16) // it moves left already, now down as well
	}
	if r := Measure(diagonal); r.Motion != Unknown || r.Shape != "circle" {
		t.Errorf("a circle that moves diagonally: got %+v, want an unknown motion", r)
	}
	cyan := edit(draw(func(*spec) {}), func(f []byte, _ int) {
		for i := 0; i < len(f); i += 3 {
			f[i+1], f[i+2] = f[i], f[i]
			f[i] = 10
		}
	})
	if r := Measure(cyan); r.Color != Unknown || r.Shape != "circle" {
		t.Errorf("a cyan circle: got %+v, want an unknown colour", r)
	}
	diagonal.Frames = diagonal.Frames[8:9]
	if r := Measure(diagonal); r.Motion != Unknown || r.Shape != "circle" {
		t.Errorf("a clip of one frame: got %+v, want an unknown motion", r)
	}
}

// vanishHalfway makes the second half of 16 frames black.
func vanishHalfway(f []byte, i int) {
	if i >= 8 {
		clear(f)
	}
}

func fillNoise(rng *rand.Rand, f []byte) {
	for i := range f {
		f[i] = byte(rng.IntN(256))
	}
}

// fillSpots draws 25 red spots of 4x4 pixels on black, none near the border.
func fillSpots(rng *rand.Rand, f []byte) {
	clear(f)
	for range 25 {
		x, y := 4+rng.IntN(50), 4+rng.IntN(50)
		for dy := range 4 {
			for dx := range 4 {
				f[3*((y+dy)*64+x+dx)] = 225
			}
		}
	}
}

// shiftDown returns a frame moved down by a number of pixels. It repeats the row at the border.
func shiftDown(f []byte, size, by int) []byte {
	out := make([]byte, 0, len(f))
	for y := range size {
		from := min(max(y-by, 0), size-1)
		out = append(out, f[3*size*from:][:3*size]...)
	}
	return out
}

func TestScore(t *testing.T) {
	r := Reading{Color: "red", Shape: "circle", Motion: "up"}
	if v := score("red", "circle", "up", r); !v.right() {
		t.Errorf("got %+v, want all three right", v)
	}
	if v := score("red", "square", "up", r); v.right() || !v.Color || v.Shape || !v.Motion {
		t.Errorf("got %+v, want only the shape wrong", v)
	}
}

// namesOf returns the names of a list of colours.
func namesOf(list []named) (names []string) {
	for _, n := range list {
		names = append(names, n.name)
	}
	return names
}

func motionsOf() []string { return []string{"left", "right", "up", "down", "still"} }

func shapesOf() (list []string) {
	for _, o := range outlines {
		list = append(list, o.name)
	}
	return list
}

// verdict says which parts of a reading are right.
type verdict struct{ Color, Shape, Motion bool }

// right reports whether all three parts are right.
func (v verdict) right() bool { return v.Color && v.Shape && v.Motion }

// score compares a reading with the words of a prompt.
func score(color, shape, motion string, r Reading) verdict {
	return verdict{Color: r.Color == color, Shape: r.Shape == shape, Motion: r.Motion == motion}
}
