package score

import (
	"context"

	"latentbeam/internal/media/resize"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/amt"
	"latentbeam/stages/weights"
)

// smoothness interpolates every second frame from its neighbours and compares it with the real frame.
type smoothness struct {
	dev          kernels.Backend
	net          *amt.AMT
	next         int
	past, middle []byte
	sum          float64 // of the mean differences
	pairs        int
}

func openSmoothness(o *options) (*opened, error) {
	net, err := openTower(o, amtS, amt.Family(), amt.ParseConfig, amt.Load)
	if err != nil {
		return nil, err
	}
	enough := func(frames, height, width int) bool { return frames > 2 && amt.Takes(height, width) }
	begin := func(_ context.Context, dev kernels.Backend, c clip) (meter, error) {
		if !enough(c.frames, c.height, c.width) {
			return plainMeter{noReadings{}}, nil
		}
		on, err := net.On(dev)
		return &smoothness{dev: dev, net: on}, err
	}
	return &opened{weights: net.Digest(), begin: begin, load: net.Load, rehearse: func(row *schemas.PromptRow) (r rehearsal, known bool) {
		shapes, err := amt.Load(amt.Config{}, weights.ShapesOnly())
		if err != nil || !enough(row.NumFrames, row.Height, row.Width) {
			return r, false
		}
		return rehearsal{of: amtS, at: resize.Size{Width: row.Width, Height: row.Height}, times: float64((row.NumFrames - 1) / 2),
			host: amt.HostBytes(row.Height, row.Width), run: func(be kernels.Backend) error { return shapes.Rehearse(be, row.Height, row.Width) }}, true
	}}, nil
}

func (m *smoothness) add(ctx context.Context, f frame) error {
	m.next++
	if m.next%2 == 0 {
		m.middle = append(m.middle[:0], f.rgb...)
		return nil
	}
	if m.past != nil {
		made, err := m.net.Interpolate(ctx, m.dev, m.past, f.rgb, f.height, f.width)
		if err != nil {
			return err
		}
		m.sum += meanDifference(made.Cut(f.height, f.width), m.middle)
		m.pairs++
	}
	m.past = append(m.past[:0], f.rgb...)
	return nil
}

// meanDifference returns the mean absolute difference of an image with values from 0 to 1, truncated to bytes, and an image of bytes.
func meanDifference(made []float32, there []byte) float64 {
	bytes := make([]byte, len(made))
	for i, v := range made {
		bytes[i] = byte(v * 255)
	}
	return float64(distance(bytes, there)) / float64(len(made))
}

func (m *smoothness) read(_ context.Context, into map[string]string) error {
	into[smoothnessName] = precise((255 - m.sum/float64(m.pairs)) / 255)
	return nil
}
