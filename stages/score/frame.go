package score

import (
	"context"
	"strconv"

	"latentbeam/kernels"
	"latentbeam/schemas"
)

// frame is one frame of a clip, in the forms that meters need. Its bytes are valid until the next frame.
type frame struct {
	width, height int
	rgb           []byte // (height, width, 3)
	grey          []byte // (height, width): Pillow's convert("L")
}

// clip is what is known about a clip before its frames.
type clip struct {
	frames, height, width int
	fps                   float64
	row                   *schemas.PromptRow
	shared                map[string]*features // shared by several measures, by the name of weights
}

// meter processes the frames of one clip in order and then returns readings.
type meter interface {
	add(ctx context.Context, f frame) error
	read(ctx context.Context, into map[string]string) error
}

// plain is a meter that cannot fail.
type plain interface {
	add(f frame)
	read(into map[string]string)
}

type plainMeter struct{ plain }

// add processes the next frame.
func (p plainMeter) add(_ context.Context, f frame) error {
	p.plain.add(f)
	return nil
}

// read returns the readings.
func (p plainMeter) read(_ context.Context, into map[string]string) error {
	p.plain.read(into)
	return nil
}

// measureClip computes the readings of a clip for each of some measures. next fills rgb (height, width, 3) with the next frame.
func measureClip(ctx context.Context, dev kernels.Backend, some []*open, c clip, next func(rgb []byte, i int) error) ([]map[string]string, error) {
	c.shared = map[string]*features{}
	meters := make([]meter, len(some))
	for i, o := range some {
		m, err := o.begin(ctx, dev, c)
		if err != nil {
			return nil, err
		}
		meters[i] = m
	}
	f := frame{c.width, c.height, make([]byte, c.height*c.width*3), make([]byte, c.height*c.width)}
	for i := range c.frames {
		if err := next(f.rgb, i); err != nil {
			return nil, err
		}
		toGrey(f.grey, f.rgb)
		for _, m := range meters {
			if err := m.add(ctx, f); err != nil {
				return nil, err
			}
		}
	}
	out := make([]map[string]string, len(some))
	for i, m := range meters {
		out[i] = map[string]string{}
		if err := m.read(ctx, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// level converts a value in [-1, 1] to the nearest byte.
func level(v float32) byte { return byte(min(max(float32(float32(v*0.5+0.5)*255)+0.5, 0), 255)) }

// toGrey is Pillow's convert("L"): the luma of BT.601 in fixed point.
func toGrey(grey, rgb []byte) {
	for i := range grey {
		p := rgb[3*i:][:3]
		grey[i] = byte((uint32(p[0])*19595 + uint32(p[1])*38470 + uint32(p[2])*7471 + 1<<15) >> 16)
	}
}

// distance returns the sum of the absolute differences of two planes.
func distance(a, b []byte) (sum int64) {
	for i, v := range a {
		d := int64(v) - int64(b[i])
		sum += max(d, -d)
	}
	return sum
}

// number formats a reading. It always has a fraction, so that a column has one type.
func number(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
