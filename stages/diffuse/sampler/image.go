package sampler

import "fmt"

// imageBranches are the rows of an element under image guidance: its prompt with the given frames, the null
// text with them, and the null text without. They stand in this order, each for all n elements.
const imageBranches = 3

// Image is how Open-Sora 1.3 conditions on given frames: the network takes their latents as a second input,
// which its caller provides, and guidance tells their part from the text's.
type Image struct {
	Latents []float32 // n x Channels x Size, 0 where no frame is given
	Given   []bool    // Frames: the same of every element
	// Scale is the guidance scale of the given frames, image_cfg_scale.
	Scale float32
	// Ramp lets the scale fall to 1 over the steps and rise from 1 over the frames; it does nothing to scales
	// up to 1.
	Ramp bool
	// Oscillate guides by the frames every second step only, after the first of them.
	Oscillate bool
	// Renoise starts every step from the given frames with noise of the step, as SDEdit does (arXiv:2108.01073).
	Renoise bool
}

func (m *Image) check(b Batch, length int) error {
	if len(m.Latents) != length || len(m.Given) != b.Frames {
		return fmt.Errorf("given images have %d values and %d frames, want %d and %d",
			len(m.Latents), len(m.Given), length, b.Frames)
	}
	if b.Guidance == nil || b.Masks != nil {
		return fmt.Errorf("given images take guidance and no frame masks")
	}
	return nil
}

// imageScales are the guidance scales of the frames at step i.
func (s *RectifiedFlow) imageScales(r *Run, i int) []float32 {
	m := r.Image
	scale := m.Scale
	if m.Oscillate && i >= oscillateFrom && i%2 == 1 {
		scale = 1
	}
	scales := make([]float32, r.Frames)
	for t := range scales {
		scales[t] = scale
	}
	if m.Ramp && scale > 1 {
		upper := linspace(scale, 1, len(s.timesteps))[i]
		copy(scales, linspace(1, upper, r.Frames))
	}
	return scales
}

// guideImage replaces cond, the velocity under prompt and frames, by nothing + image (frames - nothing) +
// text (cond - frames); frames and nothing are those of the other branches. image holds a scale for each frame
// of the size values of a channel.
func guideImage(cond, frames, nothing []float32, text float32, image []float32, size int) {
	area := size / len(image)
	for i, c := range cond {
		scale := image[i%size/area]
		v := nothing[i] + float32(scale*(frames[i]-nothing[i]))
		cond[i] = v + float32(text*(c-frames[i]))
	}
}

// linspace is torch's: n values from first to last, counted from the nearer end.
func linspace(first, last float32, n int) []float32 {
	out := make([]float32, n)
	if n == 1 {
		out[0] = first
		return out
	}
	step := (last - first) / float32(n-1)
	for i := range out {
		if i < n/2 {
			out[i] = first + float32(step*float32(i))
		} else {
			out[i] = last - float32(step*float32(n-1-i))
		}
	}
	return out
}
