package nn

import (
	"fmt"

	"latentbeam/kernels"
)

// FrameMask says which frames of a batch are being denoised (Open-Sora's x_mask, Wan's timesteps for single tokens). A given
// frame is modulated as at timestep 0, so that the network treats it as finished.
type FrameMask struct {
	B, T      int    // rows, and frames of a row
	generated []bool // (B, T'), row-major; nil: all frames
}

// NewFrameMask makes the mask for b rows of t frames. It checks the length of generated, which may be nil.
func NewFrameMask(generated []bool, b, t int) (FrameMask, error) {
	f := FrameMask{B: b, T: t}
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

// Given reports whether any frame is given.
func (f FrameMask) Given() bool { return f.generated != nil }

// Timesteps returns the timesteps of the batch, followed by zeros for its given frames if it has any.
func (f FrameMask) Timesteps(t []float32) []float32 {
	if f.generated == nil {
		return t
	}
	return append(append([]float32(nil), t...), make([]float32, len(t))...)
}

// Rows returns the modulation rows of all frames: m (B, R C) gives (B, 1, R, C). If frames are given, m is (2B, R C), where the
// second half is for timestep 0, and each frame gets its own rows: (B, T', R, C).
func (f FrameMask) Rows(be kernels.Backend, m kernels.Tensor, r int) kernels.Tensor {
	c := m.Dim(1) / r
	if f.generated == nil {
		return m.Reshape(f.B, 1, r, c)
	}
	ids := make([]int32, f.B*f.T)
	for i, g := range f.generated {
		ids[i] = int32(i / f.T)
		if !g {
			ids[i] += int32(f.B)
		}
	}
	gathered := be.Alloc(m.DType, len(ids), r*c) // (B T', R C)
	be.Gather(gathered, m, ids)
	return gathered.Reshape(f.B, f.T, r, c)
}

// EachGiven calls do for every given frame.
func (f FrameMask) EachGiven(do func(row, frame int)) {
	for i, g := range f.generated {
		if !g {
			do(i/f.T, i%f.T)
		}
	}
}
