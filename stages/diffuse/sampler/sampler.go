package sampler

import (
	"context"
	"fmt"
)

// Sampler turns noise into latents by calling a network step by step. It is read-only and safe for concurrent use. The samplers
// of this package are IDDPM, RectifiedFlow, UniPC, FlowEuler, FlowDMD, EulerAncestral and PNDM.
type Sampler interface {
	// Steps returns the number of steps. Each calls the network once.
	Steps() int
	// Timesteps returns the timestep of each call, in order.
	Timesteps() []float32
	// Signature names the sampler and its tables. A sampler can resume from the State of a sampler with the same signature.
	Signature() string
	// Sample turns the initial noise z (n x Channels x Size) into latents, in place. After each step it calls progress, which
	// may be nil, with the number of finished steps. A cancelled ctx stops it between two steps.
	Sample(ctx context.Context, b Batch, z []float32, model Model, noise Noise,
		progress func(done, total int)) error
}

// Batch describes elements that are sampled together. Latents are n elements of Channels x Size, fp32, row-major.
type Batch struct {
	N        int // elements
	Channels int // latent channels: 4, or 16 from Open-Sora 1.3 on
	Size     int // T * H * W
	// Sizes holds the size of each element if the sizes differ, as the shares of a worker do. Nil: all have Size.
	Sizes  []int
	Frames int // T; needed with Masks or an Image
	// Guidance holds the guidance_scale of each element. The network is then called with 2n rows: the n elements with their
	// prompts, then the same n with the null text. Nil: no guidance and n rows.
	Guidance []float32
	// Second has other guidance scales for the steps with little noise; nil: Guidance applies to all steps.
	Second *Second
	// Masks holds the edit ratio of each frame of each element (n x Frames), from 0 to 1, if z partly holds given frames. 1 is
	// noise to be denoised; 0 is a frame that stays; a frame with a value in between gets noise and is denoised in that last
	// part of the steps. Nil: all is noise.
	Masks []float32
	// Gather replaces moments of a worker's shares by moments of the whole elements, ordered by position. All workers call it
	// in the same steps. Nil: elements are whole.
	Gather func(parts [][]Moments) error
	// Image conditions the network on given frames as Open-Sora 1.3 does; nil: no condition.
	Image *Image
	// From is the state that an earlier call reached; z then holds the latents of that state. Zero: start at the beginning.
	From State
	// After is called after each step but the last with the new state; z holds its latents. The content of the state is valid
	// during the call only. An error stops the sampling. It may be nil.
	After func(State) error
	// Idle says that z belongs to no element: a worker without a share takes part in the steps, but its values are not used.
	Idle bool
}

// Second is the guidance for the second of two denoisers.
type Second struct {
	Below    float32   // it applies below this timestep
	Guidance []float32 // one scale for each element, as Batch.Guidance
}

// Model evaluates the network on rows of Channels x Size, with a timestep for each row in the training process, 0 to 1000, not
// rounded to the model's dtype. generated says for each frame of each row (rows x Frames) whether it is being denoised; a given
// frame is modulated as at timestep 0 (the reference's x_mask). Nil: all are. The result has rows of k x Channels x Size: the
// prediction, and with k = 2 then the variance. Arguments are valid during the call only, the result until the next call.
type Model func(ctx context.Context, rows, timesteps []float32, generated []bool) ([]float32, error)

// Draw identifies a noise.
type Draw struct {
	Step int // in sampling order, from 0
	// Given marks the noise that is added to given frames before a step; else it is the noise of the step itself.
	Given bool
}

// Noise fills dst (Channels x Size) with the standard normal noise of an element. It must depend only on the element and the
// draw. It is not called if the noise would change nothing.
type Noise func(draw Draw, element int, dst []float32)

// size returns the size of element e.
func (b Batch) size(e int) int {
	if b.Sizes != nil {
		return b.Sizes[e]
	}
	return b.Size
}

// check validates a batch whose latents have length values.
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
