package dit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// MagRatios are facts about a model that MagCache measured (arXiv:2506.09045): the factor by which the magnitude of the blocks'
// contribution to the tokens changes from one step to the next.
type MagRatios struct {
	// Ratios has the ratios of the steps from the second on, alternating between the prompt's branch and the other one.
	Ratios []float64 `json:"ratios"`
	// Threshold and K are the settings that were published for the model.
	Threshold float64 `json:"threshold"`
	K         int     `json:"k"`
	// FirstWhole says that the first of two denoisers computes all of its steps.
	FirstWhole bool `json:"-"`
}

// Residual is what the blocks of a network added to the tokens at the last evaluation of some rows. A nil Residual stores
// nothing.
type Residual struct {
	Replay bool // add the stored contribution instead of running the blocks

	added []kernels.Tensor // one tensor (n, T', W, C) for each part
}

// Alloc allocates tensors for the tokens of all parts, in the scope open at the call.
func (r *Residual) Alloc(be kernels.Backend, dt kernels.DType, parts []nn.Part, frames, hidden int) {
	if r == nil {
		return
	}
	r.added = nil
	for _, p := range parts {
		r.added = append(r.added, be.Alloc(dt, p.Rows.Len, frames, p.Patches.Len, hidden))
	}
}

// Around runs blocks, which change the tokens xs in place, and stores what they added. With Replay it adds the stored
// contribution instead. Differences and sums are rounded to the type of the tokens.
func (r *Residual) Around(be kernels.Backend, xs []kernels.Tensor, blocks func() error) error {
	if r == nil {
		return blocks()
	}
	defer be.Scope()()
	if r.Replay {
		for i, x := range xs {
			be.Binary(x, x, r.added[i], kernels.Add)
		}
		return nil
	}
	var before []kernels.Tensor
	for _, x := range xs {
		b := be.Alloc(x.DType, x.Shape...)
		be.Copy(b, x)
		before = append(before, b)
	}
	if err := blocks(); err != nil {
		return err
	}
	for i, x := range xs {
		minus := be.Alloc(x.DType, 1, 1, 1, 1)
		be.Upload(minus, []float32{-1})
		be.Binary(before[i], before[i], minus.Expand(x.Shape...), kernels.Mul)
		be.Binary(r.added[i], x, before[i], kernels.Add)
	}
	return nil
}
