package sampler

import (
	"fmt"
	"math"

	"latentbeam/kernels"
)

// flowTimesteps is the length of the training process of rectified flow.
const flowTimesteps = 1000

// timetable is the timesteps of the steps, or evaluations, in the order in which the network sees them.
type timetable struct{ timesteps []float32 }

// Steps returns how many there are.
func (t timetable) Steps() int { return len(t.timesteps) }

// Timesteps returns them.
func (t timetable) Timesteps() []float32 { return t.timesteps }

// VideoSize is the height and width of a row in pixels and its frames, on which a schedule may depend. It is not the size
// of the latents.
type VideoSize struct {
	Height, Width, Frames int
	// BF16 tells that the model runs in bfloat16, in which the reference then also computes the shift.
	BF16 bool
}

// frameRule counts the frames that shift a clip's timesteps, from the frames of the video.
type frameRule struct {
	count func(frames float64, r rounding) float64
	least int // frames of the shortest clip that is not a picture
}

var (
	// groupsOf17 is Open-Sora 1.2's: its VAE makes 5 latent frames of 17.
	groupsOf17 = &frameRule{func(n float64, r rounding) float64 { return r(math.Floor(n/17) * 5) }, 17}
	// every4th is Open-Sora 1.3's.
	every4th = &frameRule{func(n float64, r rounding) float64 { return r(math.Floor(r(n-1) / 4)) }, 5}
)

func (r *frameRule) check(frames int) error {
	if frames != 1 && frames < r.least {
		return fmt.Errorf("num_frames is %d: give 1, or %d or more; the noise schedule is not defined between",
			frames, r.least)
	}
	return nil
}

// flowTimestepsOf returns the timesteps of n steps, from 1000 down, shifted towards the noise for clips that
// are larger than 512 x 512 or longer than one frame (section 5.3.2 of arXiv:2403.03206). Every operation is
// rounded as the reference's tensors are, since the network takes what comes out.
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

// shiftOf is sqrt(height * width / 512^2) * sqrt(frames).
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
