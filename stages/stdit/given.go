package stdit

import (
	"errors"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// given are frames that Open-Sora 1.3 is conditioned on. They are a second input, and attend to the null caption instead of the
// prompt.
type given struct {
	tokens, mask kernels.Tensor // (B, T', S, C) each, added to the embedded latents
	frames       []bool         // (T'), for all rows
	texts
}

// Condition makes the rows of p depend on given frames, as Open-Sora 1.3 does for images and for videos to continue. cond (B,
// c_in, T, H, W) has their latents, mask marks their positions, and frames lists the indices of the given frames. Tensors are
// allocated in the scope open at the call.
func (m *Model) Condition(be kernels.Backend, p *Prepared, cond, mask kernels.Tensor, frames []int) error {
	net, ok := m.net.(*stdit3)
	if !ok || m.Version != OpenSora13 {
		return fmt.Errorf("stdit: Open-Sora %s takes no conditioning latents, only 1.3 does", m.Version)
	}
	b := len(p.lens)
	for _, x := range []kernels.Tensor{cond, mask} {
		if len(x.Shape) != 5 || x.Dim(0) != b || x.Dim(1) != m.InChannels || m.patchGrid(x) != p.grid() {
			return fmt.Errorf("stdit: conditioning latents of shape %v do not belong to the batch", x.Shape)
		}
	}
	if len(frames) == 0 {
		return errors.New("stdit: conditioning latents without a given frame")
	}
	g := &given{frames: make([]bool, p.times.Len)}
	for _, f := range frames {
		if f < 0 || f >= len(g.frames) {
			return fmt.Errorf("stdit: given frame %d of %d", f, len(g.frames))
		}
		g.frames[f] = true
	}
	g.tokens = net.given.Forward(be, m.DType, cond)   // (B, T', S, C)
	g.mask = net.givenMask.Forward(be, m.DType, mask) // (B, T', S, C)
	null := make([]kernels.Tensor, b)
	for i, n := range p.lens {
		null[i] = m.NullText(be, n)
	}
	g.texts = m.keys(be, null)
	p.given = g
	return nil
}

// addGiven adds the embedded given frames to the embedded latents x (B, T', S, C).
func (p *Prepared) addGiven(be kernels.Backend, x kernels.Tensor) {
	if p.given != nil {
		be.Binary(x, x, p.given.tokens, kernels.Add)
		be.Binary(x, x, p.given.mask, kernels.Add)
	}
}

// addText adds cross attention i to the residual stream x (B, T', S, C). Frames attend to the prompt; given frames attend to
// the null caption.
func (p *Prepared) addText(be kernels.Backend, x kernels.Tensor, cross nn.CrossAttention, i int) {
	if p.given == nil {
		cross.AddTo(be, x, p.kv[i], p.lens)
		return
	}
	for start := 0; start < x.Dim(1); {
		isGiven, n := p.given.frames[start], 1
		for start+n < x.Dim(1) && p.given.frames[start+n] == isGiven {
			n++
		}
		text := p.texts
		if isGiven {
			text = p.given.texts
		}
		cross.AddTo(be, x.Narrow(1, start, n), text.kv[i], text.lens)
		start += n
	}
}

// grid is a patch grid: frames, rows, columns.
type grid [3]int

func (p *Prepared) grid() grid { return grid{p.times.Len, p.rows, p.cols} }

// patchGrid returns the grid of latents x (B, c_in, T, H, W).
func (m *Model) patchGrid(x kernels.Tensor) grid {
	t, h, w := m.PatchSize.Grid(x.Dim(2), x.Dim(3), x.Dim(4))
	return grid{t, h, w}
}
