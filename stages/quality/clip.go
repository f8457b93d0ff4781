package quality

import "strconv"

// frame is one frame of a clip, in the forms that meters look at.
type frame struct {
	width, height int
	rgb           []byte // (height, width, 3)
	grey          []byte // (height, width): Pillow's convert("L")
}

// meter looks at the frames of a clip in order and then reads off what it measures.
type meter interface {
	add(f frame)
	read(into map[string]string)
}

// meters are those of a clip of so many frames.
func (o options) meters(frames int) []meter {
	return []meter{
		&content{threshold: o.CutThreshold}, &motion{}, &sharpness{}, &luminance{}, &bars{level: o.BlackLevel}, &hash{frames: frames},
	}
}

// measure returns the readings of a clip; at fills dst (height, width, 3) with frame i, in [-1, 1].
func (o options) measure(frames, height, width int, at func(dst []float32, i int) error) (map[string]string, error) {
	all := o.meters(frames)
	values := make([]float32, height*width*3)
	f := frame{width, height, make([]byte, len(values)), make([]byte, height*width)}
	for i := range frames {
		if err := at(values, i); err != nil {
			return nil, err
		}
		for k, v := range values {
			f.rgb[k] = level(v)
		}
		toGrey(f.grey, f.rgb)
		for _, m := range all {
			m.add(f)
		}
	}
	out := map[string]string{}
	for _, m := range all {
		m.read(out)
	}
	return out, nil
}

// level is a value in [-1, 1] as a byte, to the nearest.
func level(v float32) byte { return byte(min(max(float32(float32(v*0.5+0.5)*255)+0.5, 0), 255)) }

// toGrey is Pillow's convert("L"): the luma of BT.601 in fixed point.
func toGrey(grey, rgb []byte) {
	for i := range grey {
		p := rgb[3*i:][:3]
		grey[i] = byte((uint32(p[0])*19595 + uint32(p[1])*38470 + uint32(p[2])*7471 + 1<<15) >> 16)
	}
}

// distance is the sum of the absolute differences of two planes.
func distance(a, b []byte) (sum int64) {
	for i, v := range a {
		d := int64(v) - int64(b[i])
		sum += max(d, -d)
	}
	return sum
}

// number writes a measure. It always has a fraction, so that a column of measures is of one type.
func number(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
