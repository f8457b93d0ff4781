package sampler

import (
	"fmt"
	"math"

	"latentbeam/kernels"
)

// flowTimesteps is the number of timesteps in the training process of rectified flow.
const flowTimesteps = 1000

// timetable has the timestep of each evaluation, in order.
type timetable struct{ timesteps []float32 }

// Steps returns the number of evaluations.
func (t timetable) Steps() int { return len(t.timesteps) }

// Timesteps returns the timesteps.
func (t timetable) Timesteps() []float32 { return t.timesteps }

// VideoSize is the height and width of a row in pixels and its number of frames. A schedule may depend on it. It is not the
// size of the latents.
type VideoSize struct {
	Height, Width, Frames int
	// BF16 says that the model runs in bfloat16. The reference then computes the shift in bfloat16 too.
	BF16 bool
}

// frameRule computes the number of frames that shifts a clip's timesteps, from the frames of the video.
type frameRule struct {
	count func(frames float64, r rounding) float64
	least int // frames of the shortest clip that is not an image
}

var (
	// groupsOf17 is the rule of Open-Sora 1.2: its VAE makes 5 latent frames of 17 frames.
	groupsOf17 = &frameRule{func(n float64, r rounding) float64 { return r(math.Floor(n/17) * 5) }, 17}
	// every4th is the rule of Open-Sora 1.3.
	every4th = &frameRule{func(n float64, r rounding) float64 { return r(math.Floor(r(n-1) / 4)) }, 5}
)

func (r *frameRule) check(frames int) error {
	if frames != 1 && frames < r.least {
		return fmt.Errorf("num_frames is %d: give 1, or %d or more; the noise schedule is not defined between",
			frames, r.least)
	}
	return nil
}

// flowTimestepsOf returns the timesteps of n steps, from 1000 down. They are shifted towards the noise for clips that are
// larger than 512 x 512 or longer than one frame (section 5.3.2 of arXiv:2403.03206). Every operation is rounded as the
// reference's tensors are, because the network takes the results.
func flowTimestepsOf(n int, rule frameRule, clip VideoSize) []float32 {
	r := toFP32
	if clip.BF16 {
		r = toBF16
	}
	shift := shiftOf(rule, clip, r)
	lessOne := float32(r(shift - 1))
	out := make([]float32, n)
	for i := range out {
		t := float32((1 - float64(i)/float64(n)) * flowTimesteps)
		t /= flowTimesteps
		t = float32(float32(shift)*t) / (1 + float32(lessOne*t))
		out[i] = t * flowTimesteps
	}
	return out
}

// shiftOf returns sqrt(height * width / 512^2) * sqrt(frames).
func shiftOf(rule frameRule, clip VideoSize, r rounding) float64 {
	area := r(r(float64(clip.Height)) * r(float64(clip.Width)))
	space := r(math.Sqrt(r(area / (512 * 512))))
	frames := 1.0
	if clip.Frames != 1 {
		frames = rule.count(r(float64(clip.Frames)), r)
	}
	return r(space * r(math.Sqrt(frames)))
}

// toBF16 rounds to bfloat16, to nearest and ties to even.
func toBF16(v float64) float64 { return float64(kernels.BF16.Round(float32(v))) }
