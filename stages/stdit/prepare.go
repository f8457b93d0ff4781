package stdit

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// Prepared holds what stays the same over all sampling steps of a batch: the position tables of its size,
// and the keys and values of its texts for each block.
type Prepared struct {
	frames, rows, cols int              // patch grid
	spatial            kernels.Tensor   // (1, 1, S, C), pos_embed
	temporal           kernels.Tensor   // (1, T', 1, C), pos_embed_temporal
	kv                 []kernels.Tensor // for each block (B, max L, 2, H, D)
	lens               []int            // (B)
}

// MaxLatentSide bounds T, H and W of the latents.
const MaxLatentSide = 4096

// Prepare computes what the steps of a batch share, in the scope open at the call: latents of t frames of
// h x w under one text for each of the B rows, text i being (L_i, caption_channels). Under guidance the
// second half of the rows takes NullText of the first half's lengths, or negative prompts.
func (m *Model) Prepare(be kernels.Backend, t, h, w int, texts []kernels.Tensor) (*Prepared, error) {
	if min(t, h, w) < 1 || max(t, h, w) > MaxLatentSide {
		return nil, fmt.Errorf("prepare stdit: latents of %dx%dx%d: each side must be 1 to %d",
			t, h, w, MaxLatentSide)
	}
	p := &Prepared{}
	p.frames, p.rows, p.cols = m.PatchSize.Grid(t, h, w)
	total, longest := 0, 0
	for i, text := range texts {
		if len(text.Shape) != 2 || text.Dim(1) != m.CaptionChannels {
			return nil, fmt.Errorf("prepare stdit: text %d has shape %v, want (L, %d): "+
				"text encoder and denoiser do not belong together", i, text.Shape, m.CaptionChannels)
		}
		n := text.Dim(0)
		if n < 1 || n > m.ModelMaxLength {
			return nil, fmt.Errorf("prepare stdit: text %d has %d tokens, must be 1 to model_max_length %d",
				i, n, m.ModelMaxLength)
		}
		p.lens = append(p.lens, n)
		total, longest = total+n, max(longest, n)
	}
	if total == 0 {
		return nil, fmt.Errorf("prepare stdit: no texts")
	}
	p.positions(be, m.Config)

	d := m.HiddenSize / m.NumHeads
	for range m.blocks {
		p.kv = append(p.kv, be.Alloc(kernels.F32, len(texts), longest, 2, m.NumHeads, d))
	}
	defer be.Scope()()
	packed := be.Alloc(kernels.F32, total, m.CaptionChannels) // (sum L, caption)
	start := 0
	for i, text := range texts {
		be.Copy(packed.Narrow(0, start, p.lens[i]), text)
		start += p.lens[i]
	}
	y := m.caption.Forward(be, packed) // (sum L, C)
	for i := range m.blocks {
		m.blocks[i].cross.Keys(be, p.kv[i], y, p.lens)
	}
	return p, nil
}

func (p *Prepared) positions(be kernels.Backend, cfg Config) {
	c, s := cfg.HiddenSize, p.rows*p.cols
	p.spatial = be.Alloc(kernels.F32, 1, 1, s, c)
	be.Upload(p.spatial, nn.SinCos2D(c, p.rows, p.cols, cfg.SpaceScale))
	p.temporal = be.Alloc(kernels.F32, 1, p.frames, 1, c)
	be.Upload(p.temporal, nn.SinCos1D(c, p.frames, cfg.TimeScale))
}

// NullText returns the first n rows of the learned null caption (n, caption_channels), in the scope open
// at the call. The reference masks the unconditional row like its prompt, so n is the prompt's length. A
// table that is shorter goes on with its last row.
func (m *Model) NullText(be kernels.Backend, n int) kernels.Tensor {
	have := min(n, m.nullText.Dim(0))
	text := be.Alloc(kernels.F32, n, m.CaptionChannels) // (n, caption)
	be.Copy(text.Narrow(0, 0, have), m.nullText.Narrow(0, 0, have))
	if n > have {
		last := m.nullText.Narrow(0, have-1, 1)
		be.Copy(text.Narrow(0, have, n-have), last.Expand(n-have, m.CaptionChannels))
	}
	return text
}
