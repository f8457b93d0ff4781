package sampler

import (
	"context"
	"fmt"
)

// Sampler turns noise into latents by calling a network step by step. It is read-only and may serve any
// number of batches at once. There are IDDPM, RectifiedFlow, UniPC,
// FlowEuler, FlowDMD, EulerAncestral and PNDM.
type Sampler interface {
	// Steps returns how many steps Sample takes, each with one call of the network.
	Steps() int
	// Timesteps returns those of the calls, in order.
	Timesteps() []float32
	// Signature names the sampler with its tables: samplers of one signature can go on from each other's State.
	Signature() string
	// Sample turns the initial noise z (n x Channels x Size) into latents, in place. progress, which may be
	// nil, is told after each step how many are done. A cancelled ctx ends the run between two steps.
	Sample(ctx context.Context, b Batch, z []float32, model Model, noise Noise,
		progress func(done, total int)) error
}

// Batch says what is sampled together. Latents are n elements of Channels x Size, fp32, row-major.
type Batch struct {
	N        int // elements
	Channels int // latent channels: 4, or 16 from Open-Sora 1.3 on
	Size     int // T * H * W
	// Sizes holds the size of each element where they differ, as the shares that one of several workers has of
	// its elements do. Nil: all have Size.
	Sizes  []int
	Frames int // T; needed where there are Masks or an Image
	// Guidance holds the guidance_scale of each element. The network is then called with 2n rows: the n
	// elements under their prompts, then the same n under the null text. Nil means no guidance and n rows.
	Guidance []float32
	// Second guides the steps with little noise by other scales; nil: Guidance holds for all.
	Second *Second
	// Masks holds the edit ratio of each frame of each element (n x Frames), 0 to 1, for z that partly holds
	// given frames: 1 is noise to be denoised, 0 a frame that stays, and what is between is noised again
	// from its part of the way on. Nil: all is noise.
	Masks []float32
	// Gather replaces the moments of the shares that one of several workers has by those of the whole elements,
	// in order of position. It is called by every worker in the same steps. Nil: elements are whole.
	Gather func(parts [][]Moments) error
	// Image conditions the network on given frames as Open-Sora 1.3 does; nil: it is not.
	Image *Image
	// From is what an earlier call has done: z then holds the latents of that moment. The zero value: nothing.
	From State
	// After is told behind each step but the last how far it has come, z being the latents. What the state holds is
	// valid during the call. An error ends the sampling. Nil: nobody is told.
	After func(State) error
	// Idle says that z belongs to no element: a worker without a share takes part in the steps, whatever comes
	// of its values.
	Idle bool
}

// Second is the guidance of the second of two denoisers.
type Second struct {
	Below    float32   // the timestep below which it holds
	Guidance []float32 // of each element, as Batch.Guidance
}

// Model evaluates the network on rows of Channels x Size at a timestep each, in the training process, 0 to
// 1000, not rounded to the model's dtype. generated tells for each frame of each row (rows x Frames) whether
// it is being denoised; a given frame is modulated as at timestep 0 (the reference's x_mask); nil: all are.
// The result is rows of k Channels x Size, first the prediction and, with k = 2, then the variance. The
// arguments are valid during the call; the result until the next call.
type Model func(ctx context.Context, rows, timesteps []float32, generated []bool) ([]float32, error)

// Draw says what a noise is for.
type Draw struct {
	Step int // from 0 in sampling order
	// Given tells the noise that is put on given frames before a step from what a step itself adds.
	Given bool
}

// Noise fills dst (Channels x Size) with the standard normal noise of an element. It must depend on nothing
// but the element and the draw. A noise that would change nothing is not drawn.
type Noise func(draw Draw, element int, dst []float32)

// size is the size of element e.
func (b Batch) size(e int) int {
	if b.Sizes != nil {
		return b.Sizes[e]
	}
	return b.Size
}

// check looks at a batch whose latents are length values.
func (b Batch) check(length int) error {
	if b.N < 1 || b.Channels < 1 || b.Sizes != nil && len(b.Sizes) != b.N {
		return fmt.Errorf("%d elements of %d channels and %d sizes", b.N, b.Channels, len(b.Sizes))
	}
	framed, total := b.Masks != nil || b.Image != nil, 0
	for e := range b.N {
		size := b.size(e)
		if framed && (b.Frames < 1 || size%b.Frames != 0) {
			return fmt.Errorf("an element of %d values a channel does not have %d frames", size, b.Frames)
		}
		total += b.Channels * size
	}
	if length != total || length == 0 {
		return fmt.Errorf("%d values are not %d elements of %d channels x %d", length, b.N, b.Channels, b.Size)
	}
	if b.Guidance != nil && len(b.Guidance) != b.N {
		return fmt.Errorf("%d guidance scales for %d elements", len(b.Guidance), b.N)
	}
	if b.Second != nil && len(b.Second.Guidance) != len(b.Guidance) {
		return fmt.Errorf("%d second guidance scales for %d first ones", len(b.Second.Guidance), len(b.Guidance))
	}
	if b.Masks != nil && len(b.Masks) != b.N*b.Frames {
		return fmt.Errorf("%d frame masks for %d elements of %d frames", len(b.Masks), b.N, b.Frames)
	}
	for _, m := range b.Masks {
		if !(m >= 0 && m <= 1) {
			return fmt.Errorf("a frame mask is %g, must be 0 to 1", m)
		}
	}
	if b.Image != nil {
		return b.Image.check(b, length)
	}
	return nil
}

// guide replaces the first n values of cond by null + scale (cond - null).
func guide(cond, null []float32, n int, scale float32) {
	for i := range n {
		cond[i] = null[i] + float32(scale*(cond[i]-null[i]))
	}
}
