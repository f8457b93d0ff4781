package score

import (
	"math"
	"strconv"
)

// content finds cuts as PySceneDetect's ContentDetector does with its default weights: from the mean absolute difference of
// hue, saturation and value between adjacent frames, in OpenCV's 8-bit HSV.
type content struct {
	threshold float64
	now, past [3][]byte // hue, saturation, value
	begun     bool
	cuts      int
	most      float64
}

func (c *content) add(f frame) {
	if c.now[0] == nil {
		for i := range c.now {
			c.now[i], c.past[i] = make([]byte, len(f.grey)), make([]byte, len(f.grey))
		}
	}
	toHSV(c.now[0], c.now[1], c.now[2], f.rgb)
	if c.begun {
		sum := 0.0
		for i := range c.now {
			sum += float64(distance(c.now[i], c.past[i])) / float64(len(f.grey))
		}
		score := sum / 3
		if score >= c.threshold {
			c.cuts++
		}
		c.most = max(c.most, score)
	}
	c.begun, c.now, c.past = true, c.past, c.now
}

func (c *content) read(into map[string]string) {
	into[sceneCuts], into[sceneChange] = strconv.Itoa(c.cuts), number(c.most)
}

// shift is the number of fractional bits of the tables below.
const shift = 12

// saturations and hues are tables of 255/i and 180/(6 i) in fixed point, 0 for i = 0.
var saturations, hues = reciprocals(255), reciprocals(180.0 / 6)

func reciprocals(of float64) (table [256]int32) {
	for i := 1; i < len(table); i++ {
		table[i] = int32(math.RoundToEven(of * (1 << shift) / float64(i)))
	}
	return table
}

// toHSV is OpenCV's conversion of 8-bit RGB to HSV, whose hue goes from 0 to 179.
func toHSV(hue, saturation, value, rgb []byte) {
	const half = 1 << (shift - 1)
	for i := range hue {
		r, g, b := int32(rgb[3*i]), int32(rgb[3*i+1]), int32(rgb[3*i+2])
		v := max(r, g, b)
		spread := v - min(r, g, b)
		var h int32
		switch v {
		case r:
			h = g - b
		case g:
			h = b - r + 2*spread
		default:
			h = r - g + 4*spread
		}
		h = (h*hues[spread] + half) >> shift
		if h < 0 {
			h += 180
		}
		hue[i], saturation[i], value[i] = byte(h), byte((spread*saturations[v]+half)>>shift), byte(v)
	}
}
