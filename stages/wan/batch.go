package wan

import (
	"cmp"
	"errors"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
)

// batch is the network for some rows: everything that all steps share.
type batch struct {
	*Model
	be      kernels.Backend
	rows    *dit.Rows
	area    int              // patches of a frame
	tokens  int              // of a text with padding
	frames  int              // T'
	extra   []kernels.Tensor // for each part, see conditions
	rope    nn.Rope          // (T', S, D/2), for all tokens
	kv      []kernels.Tensor // of the texts, for each block on this rank (B, tokens, 2, heads, D)
	imageKV []kernels.Tensor // of the images, like kv; empty: the network has no image embedding
}

var errNoNull = errors.New("guidance: Wan has no null text of its own, and this row has guidance and no embedding of a " +
	"negative prompt: give negative_prompt (none is the empty text) where the text is encoded, or guidance_scale 1")

// Prepare computes the positions, and the keys and values of the texts.
func (m *Model) Prepare(be kernels.Backend, rows *dit.Rows) (dit.Batch, error) {
	t, h, w := m.PatchSize.Grid(rows.Size.T, rows.Size.H, rows.Size.W)
	frames, side, _ := m.axes()
	b := &batch{Model: m, be: be, rows: rows, area: h * w, frames: t, kv: make([]kernels.Tensor, m.Layers),
		rope: nn.NewVideoRope(be, kernels.F32, nn.RopeAngles(t, frames, 1), nn.RopeAngles(h, side, 1), nn.RopeAngles(w, side, 1))}
	b.tokens = cmp.Or(rows.Rows[0].Row.MaxSequenceLength, textTokens)
	for i := m.own.Lo; i < m.own.Hi; i++ {
		b.kv[i] = be.Alloc(m.DType, len(rows.Rows), b.tokens, 2, m.blocks[i].cross.mine.Len(), m.HeadSize)
	}
	if m.image != nil {
		if err := b.allocImageKV(); err != nil {
			return nil, err
		}
	}
	b.conditions()
	rows.Residual.Alloc(be, m.DType, rows.Parts, t, m.Hidden())
	defer be.Scope()()
	text, lens, err := m.embedTexts(be, rows.Rows)
	if err != nil {
		return nil, err
	}
	var images kernels.Tensor
	if m.image != nil {
		images = b.embedImages()
	}
	for i := range m.flow.Each(m.own) {
		m.blocks[i].cross.keys(be, b.kv[i], text, lens)
		if m.image != nil {
			m.blocks[i].cross.imageKeys(be, b.imageKV[i], images)
		}
	}
	return b, nil
}

// embedTexts returns the embedded texts of rows (sum L + 1, C) and their lengths. The last row is the embedded padding.
func (m *Model) embedTexts(be kernels.Backend, rows []dit.BatchRow) (kernels.Tensor, []int, error) {
	var lens []int
	total := 1
	for _, r := range rows {
		caption := r.Caption()
		if caption == nil {
			return kernels.Tensor{}, nil, errNoNull
		}
		lens = append(lens, caption.Shape[0])
		total += caption.Shape[0]
	}
	packed := be.Alloc(m.DType, total, m.TextWidth)
	start := 0
	for i, r := range rows {
		be.Upload(packed.Narrow(0, start, lens[i]), r.Caption().Data)
		start += lens[i]
	}
	be.Upload(packed.Narrow(0, start, 1), make([]float32, m.TextWidth))
	return m.text.Forward(be, packed), lens, nil
}

// Advance runs this rank's blocks on the tokens xs in place, and if last is set also the head.
func (b *batch) Advance(xs []kernels.Tensor, at dit.Instant, last bool) ([]kernels.Tensor, error) {
	be := b.be
	frames, err := nn.NewFrameMask(at.Generated, len(at.Timesteps), b.frames)
	if err != nil {
		return nil, err
	}
	t := b.convert(b.DType, b.timestep.Forward(be, kernels.F32, frames.Timesteps(at.Timesteps))) // (B or 2B, C)
	silu := be.Alloc(t.DType, t.Shape...)
	be.Unary(silu, t, kernels.SiLU)
	mod := frames.Rows(be, b.convert(kernels.F32, b.blockMod.Forward(be, silu, kernels.Identity)), 6) // tables are in fp32
	err = b.rows.Residual.Around(be, xs, func() error {
		for i := range b.flow.Each(b.own) {
			if b.rows.Split != nil {
				b.rows.Split.Group.Block(i)
			}
			if err := b.advance(i, xs, mod); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !last {
		return nil, err
	}
	ends := nn.ModulationRows(be, b.table, frames.Rows(be, b.twice(t), 2)) // (B, T' or 1, 2, C)
	outs := make([]kernels.Tensor, len(xs))
	for i, x := range xs {
		row := b.rows.Modulation(i, ends, x)
		outs[i] = b.out.Forward(be, b.modulate(x, row(0), row(1)), kernels.Identity)
	}
	return outs, nil
}

// convert returns x converted to a type.
func (b *batch) convert(dt kernels.DType, x kernels.Tensor) kernels.Tensor {
	if x.DType == dt {
		return x
	}
	y := b.be.Alloc(dt, x.Shape...)
	b.be.Copy(y, x)
	return y
}

// modulate returns LN(x) (1 + scale) + shift, computed in fp32 and rounded once.
func (b *batch) modulate(x, shift, scale kernels.Tensor) kernels.Tensor {
	y := b.be.Alloc(kernels.F32, x.Shape...)
	b.be.Norm(y, x, kernels.NormSpec{Kind: kernels.LayerNorm, Eps: nn.LayerNormEps, Shift: shift, Scale: scale})
	return b.convert(x.DType, y)
}

// twice returns t (B, C) repeated as a modulation (B, 2 C) for shift and scale.
func (b *batch) twice(t kernels.Tensor) kernels.Tensor {
	n, c := t.Dim(0), t.Dim(1)
	both := b.be.Alloc(kernels.F32, n, 2, c)
	b.be.Copy(both, t.Reshape(n, 1, c).Expand(n, 2, c))
	return both.Reshape(n, 2*c)
}

// advance runs block i on the tokens xs of all parts, with the modulation mod (B, T' or 1, 6, C).
func (b *batch) advance(i int, xs []kernels.Tensor, mod kernels.Tensor) error {
	be, l := b.be, b.blocks[i]
	defer be.Scope()()
	mod = nn.ModulationRows(be, l.table, mod)
	if err := b.attend(l.self, xs, mod); err != nil {
		return err
	}
	for k, x := range xs {
		b.addTextAndMLP(i, k, x, b.rows.Modulation(k, mod, x))
	}
	return nil
}

// attend adds gate * attention(modulate(LN(x))) over all tokens of a video to each part.
func (b *batch) attend(a attention, xs []kernels.Tensor, mod kernels.Tensor) error {
	be := b.be
	defer be.Scope()()
	var qkvs, outs []kernels.Tensor
	for k, x := range xs {
		row := b.rows.Modulation(k, mod, x)
		outs = append(outs, be.Alloc(x.DType, x.Dim(0), x.Dim(1), x.Dim(2), a.mine.Len(), a.d))
		qkvs = append(qkvs, a.qkv(be, b.modulate(x, row(0), row(1)), b.rope, b.rows.Real(k, b.area)))
	}
	if err := nn.AttendFull(be, b.rows.Split, b.DType, outs, qkvs, &nn.Pattern{Int8: b.Int8}); err != nil {
		return err
	}
	for k, x := range xs {
		a.add(be, x, outs[k], b.rows.Modulation(k, mod, x)(2))
	}
	return nil
}

// addTextAndMLP adds the attention to the text and the MLP of block i to a part. row returns the rows of its modulation.
func (b *batch) addTextAndMLP(i, part int, x kernels.Tensor, row func(i int) kernels.Tensor) {
	be, l, at := b.be, b.blocks[i], b.rows.Parts[part].Rows
	defer be.Scope()()
	var seen kernels.Tensor
	if b.imageKV != nil {
		seen = b.imageKV[i].Narrow(0, at.Start, at.Len)
	}
	l.cross.addText(be, x, l.norm.forward(be, x), b.kv[i].Narrow(0, at.Start, at.Len), seen)
	l.ffn.AddTo(be, x, b.modulate(x, row(3), row(4)), row(5))
}
