package sampler

import "fmt"

// imageBranches is the number of rows for an element with image guidance: the prompt with the given frames, the null text with
// the frames, and the null text without them. All n elements of a branch come before the next branch.
const imageBranches = 3

// Image conditions on given frames as Open-Sora 1.3 does: the network takes their latents as a second input, which the caller
// provides. Guidance separates the effect of the frames from the effect of the text.
type Image struct {
	Latents []float32 // n x Channels x Size, 0 in frames that are not given
	Given   []bool    // Frames, the same for every element
	// Scale is the guidance scale for the given frames, image_cfg_scale.
	Scale float32
	// Ramp lowers the scale to 1 over the steps and raises it from 1 over the frames. Scales up to 1 do not change.
	Ramp bool
	// Oscillate applies image guidance in every second step only, after the first steps.
	Oscillate bool
	// Renoise replaces the given frames before every step by the frames with the step's noise, as SDEdit does
	// (arXiv:2108.01073).
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

// imageScales returns the guidance scale of each frame at step i.
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

// guideImage combines the velocities of three branches in cond: nothing + image (frames - nothing) + text (cond - frames). cond
// is computed with prompt and frames, frames with the frames only, nothing with neither. image has a scale for each frame of
// the size values of a channel.
func guideImage(cond, frames, nothing []float32, text float32, image []float32, size int) {
	area := size / len(image)
	for i, c := range cond {
		scale := image[i%size/area]
		v := nothing[i] + float32(scale*(frames[i]-nothing[i]))
		cond[i] = v + float32(text*(c-frames[i]))
	}
}

// linspace is torch.linspace: n values from first to last, each computed from the nearer end.
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
