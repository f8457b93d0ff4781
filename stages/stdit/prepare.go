package stdit

import (
	"fmt"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
)

// Prepared holds everything that is the same in all sampling steps of a batch: the positions for its size, its conditions, and
// the keys and values of its texts for each block.
type Prepared struct {
	rows, cols     int     // patch grid of a frame
	times, patches nn.Span // the frames and patches of the video that this rank computes

	spatial   kernels.Tensor // (1, 1, S, C), added to all tokens
	temporal  kernels.Tensor // (1, T', 1, C), pos_embed_temporal of 1.0
	timeRope  nn.Rope        // of temporal attention, from 1.1 on
	spaceRope nn.Rope        // of spatial attention, in 1.3
	windows   nn.Windows     // of temporal attention, in 1.3

	size      kernels.Tensor // (B, C), embedding of size and aspect ratio in 1.1
	frameRate kernels.Tensor // (B, C), embedding of the frame rate, in 1.1 with the number of frames

	texts
	given *given // frames that 1.3 is conditioned on
}

// texts are the keys and values of one text for each row.
type texts struct {
	kv   []kernels.Tensor // for each block (B, max L, 2, H, D)
	lens []int            // (B)
}

// MaxLatentSide bounds T, H and W of the latents.
const MaxLatentSide = 4096

// Prepare computes everything that the steps of a batch share, in the scope open at the call. The latents have one size. Each
// of the B rows has one text; text i is (L_i, caption_channels). With guidance the second half of the rows uses NullText with
// the lengths of the first half, or negative prompts.
func (m *Model) Prepare(be kernels.Backend, size dit.LatentSize, cond Conditions, texts []kernels.Tensor) (
	*Prepared, error) {
	if min(size.T, size.H, size.W) < 1 || max(size.T, size.H, size.W) > MaxLatentSide {
		return nil, fmt.Errorf("prepare stdit: latents of %dx%dx%d: each side must be 1 to %d",
			size.T, size.H, size.W, MaxLatentSide)
	}
	p := &Prepared{}
	p.times.Len, p.rows, p.cols = m.PatchSize.Grid(size.T, size.H, size.W)
	p.patches.Len = p.rows * p.cols
	if err := m.checkTexts(texts); err != nil {
		return nil, fmt.Errorf("prepare stdit: %w", err)
	}
	if err := cond.check(m.Version, len(texts)); err != nil {
		return nil, fmt.Errorf("prepare stdit: %w", err)
	}
	p.texts = m.keys(be, texts)
	m.net.prepare(be, p, cond)
	return p, nil
}

func (m *Model) checkTexts(texts []kernels.Tensor) error {
	for i, text := range texts {
		if len(text.Shape) != 2 || text.Dim(1) != m.CaptionChannels {
			return fmt.Errorf("text %d has shape %v, want (L, %d): "+
				"text encoder and denoiser do not belong together", i, text.Shape, m.CaptionChannels)
		}
		if n := text.Dim(0); n < 1 || n > m.ModelMaxLength {
			return fmt.Errorf("text %d has %d tokens, must be 1 to model_max_length %d", i, n, m.ModelMaxLength)
		}
	}
	if len(texts) == 0 {
		return fmt.Errorf("no texts")
	}
	return nil
}

// keys embeds one caption for each row and returns its keys and values for every cross attention.
func (m *Model) keys(be kernels.Backend, captions []kernels.Tensor) texts {
	var t texts
	total, longest := 0, 0
	for _, text := range captions {
		n := text.Dim(0)
		t.lens = append(t.lens, n)
		total, longest = total+n, max(longest, n)
	}
	crosses := m.net.crosses()
	t.kv = make([]kernels.Tensor, len(crosses))
	for i, cross := range crosses {
		if cross.Heads > 0 { // other ranks have other blocks
			t.kv[i] = be.Alloc(m.DType, len(captions), longest, 2, cross.Heads, cross.D)
		}
	}
	defer be.Scope()()
	packed := be.Alloc(m.DType, total, m.CaptionChannels) // (sum L, caption)
	start := 0
	for i, text := range captions {
		be.Copy(packed.Narrow(0, start, t.lens[i]), text)
		start += t.lens[i]
	}
	y := m.caption.Forward(be, packed) // (sum L, C)
	own, flow := m.net.passing()
	each := len(crosses) / m.Depth // cross attentions for each block, or pair of blocks
	for block := range flow.Each(own) {
		for i := block * each; i < (block+1)*each; i++ {
			crosses[i].Keys(be, t.kv[i], y, t.lens)
		}
	}
	return t
}

// NullText returns the first n rows of the learned null caption (n, caption_channels), in the scope open at the call. n is the
// prompt's length, because the reference masks the unconditional row like its prompt. If the table is shorter, its last row is
// repeated.
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
