package stdit

import (
	"fmt"

	"latentbeam/kernels"
)

// frames says which frames of a batch are being denoised, from Open-Sora 1.1 on (its x_mask). A given frame is
// modulated as at timestep 0, so that the network takes it for finished.
type frames struct {
	b, t      int
	generated []bool // (B, T'), row-major; nil: all frames
}

// newFrames checks generated for b rows of t frames.
func newFrames(generated []bool, b, t int) (frames, error) {
	f := frames{b: b, t: t}
	if generated == nil {
		return f, nil
	}
	if len(generated) != b*t {
		return f, fmt.Errorf("%d marks of generated frames for %d rows of %d frames", len(generated), b, t)
	}
	for _, g := range generated {
		if !g {
			f.generated = generated
		}
	}
	return f, nil
}

// timesteps returns the timesteps of the batch, followed by zeros for its given frames if it has any.
func (f frames) timesteps(t []float32) []float32 {
	if f.generated == nil {
		return t
	}
	return append(append([]float32(nil), t...), make([]float32, len(t))...)
}

// rows deals out modulation rows: m (B, R C) gives (B, 1, R, C) for all frames. With given frames m is
// (2B, R C), second half timestep 0, and each frame gets its own: (B, T', R, C).
func (f frames) rows(be kernels.Backend, m kernels.Tensor, r int) kernels.Tensor {
	c := m.Dim(1) / r
	if f.generated == nil {
		return m.Reshape(f.b, 1, r, c)
	}
	ids := make([]int32, f.b*f.t)
	for i, g := range f.generated {
		ids[i] = int32(i / f.t)
		if !g {
			ids[i] += int32(f.b)
		}
	}
	dealt := be.Alloc(m.DType, len(ids), r*c) // (B T', R C)
	be.Gather(dealt, m, ids)
	return dealt.Reshape(f.b, f.t, r, c)
}

// eachGiven calls do for every given frame.
func (f frames) eachGiven(do func(row, frame int)) {
	for i, g := range f.generated {
		if !g {
			do(i/f.t, i%f.t)
		}
	}
}
