package media

import (
	"math"

	"latentbeam/schemas"
)

// testClip returns a clip of moving shapes and a gradient; noisy: of random pixels.
func testClip(width, height, frames int, fps float64, noisy bool) *schemas.Clip {
	c := &schemas.Clip{Width: width, Height: height, FPS: fps, Frames: make([][]byte, frames)}
	s := uint32(width*31 + height*7 + frames)
	for i := range c.Frames {
		f := make([]byte, 0, width*height*3)
		for y := range height {
			for x := range width {
				r, g, b := byte(x*255/width), byte(y*255/height), byte(128+60*math.Sin(float64(x+y+2*i)/9))
				if dx, dy := x-width/4-2*i, y-height/2; dx*dx+dy*dy < height*height/16 {
					r, g, b = 225, 40, 40
				}
				if noisy {
					s = s*1664525 + 1013904223
					r, g, b = byte(s>>24), byte(s>>16), byte(s>>8)
				}
				f = append(f, r, g, b)
			}
		}
		c.Frames[i] = f
	}
	return c
}

// maxDifference returns the largest and the mean difference of the bytes of two clips.
func maxDifference(a, b [][]byte) (largest int, mean float64) {
	n, sum := 0, 0
	for i := range a {
		for k, v := range a[i] {
			d := int(v) - int(b[i][k])
			if d < 0 {
				d = -d
			}
			largest, sum, n = max(largest, d), sum+d, n+1
		}
	}
	return largest, float64(sum) / float64(n)
}
