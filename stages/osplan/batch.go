package osplan

import (
	"errors"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
	"latentbeam/stages/sequence"
)

// batch is the network for some rows: everything that all steps share.
type batch struct {
	*Model
	be    kernels.Backend
	rows  *dit.Rows
	area  int              // patches of a frame
	rope  nn.Rope          // (T, S, D/2), for all tokens
	kv    []kernels.Tensor // of the texts, for each block on this rank (B, max L, 2, heads, D)
	lens  []int            // token counts of the texts
	masks []sequence.Mask  // one for each row of the whole batch; nil: all tokens are valid
}

var errNoNull = errors.New("Open-Sora-Plan has no null text of its own, and this row has guidance and no embedding of a " +
	"negative prompt: give negative_prompt where the text is encoded, or guidance_scale 1")

// Prepare computes the positions, the masks, and the keys and values of the texts.
func (m *Model) Prepare(be kernels.Backend, rows *dit.Rows) (dit.Batch, error) {
	box := rows.Grid()
	t, h, w := m.patch().Grid(box.T, box.H, box.W)
	b := &batch{Model: m, be: be, rows: rows, area: h * w, rope: m.positions(be, t, h, w), kv: make([]kernels.Tensor, m.Layers)}
	if box != rows.Size {
		vt, vh, vw := m.patch().Grid(rows.Size.T, rows.Size.H, rows.Size.W) // a patch is valid if any of its latents is
		mask, err := sequence.NewMask([3]int{t, h, w}, [3]int{vt, vh, vw})
		if err != nil {
			return nil, err
		}
		b.masks = slices.Repeat([]sequence.Mask{mask}, rows.Split.Rows(len(rows.Rows)))
	}
	for _, r := range rows.Rows {
		caption := r.Caption()
		if caption == nil {
			return nil, errNoNull
		}
		b.lens = append(b.lens, caption.Shape[0])
	}
	for i := m.own.Lo; i < m.own.Hi; i++ {
		b.kv[i] = be.Alloc(m.DType, len(rows.Rows), slices.Max(b.lens), 2, m.blocks[i].cross.heads, m.HeadSize)
	}
	defer be.Scope()()
	text := b.embedTexts()
	for i := range m.flow.Each(m.own) {
		m.blocks[i].cross.keys(be, b.kv[i], text, b.lens)
	}
	return b, nil
}

// positions returns the angles of the tokens of a grid. They are computed in fp32 and rounded to the model's type before the
// cosine is computed. The reference caches its tables by length only: an axis with the same length as an earlier axis gets that
// axis's table and scale.
func (m *Model) positions(be kernels.Backend, t, h, w int) nn.Rope {
	n := m.HeadSize / 6
	freqs, scales := nn.RopeFreqs(n), m.scales()
	var axes [3][][]float64
	lengths := []int{t, h, w}
	for i, length := range lengths {
		scale := scales[slices.Index(lengths, length)]
		for _, at := range nn.RopePositions(kernels.F32, nn.Span{Len: length}, scale) {
			angles := make([]float64, n)
			for j, f := range freqs {
				angles[j] = float64(m.DType.Round(at * f))
			}
			axes[i] = append(axes[i], angles)
		}
	}
	return nn.NewVideoRope(be, m.DType, axes[0], axes[1], axes[2]).Halves(n, n, n)
}

// embedTexts returns the embedded texts of the rows, one after another: (sum L, C).
func (b *batch) embedTexts() kernels.Tensor {
	total, start := 0, 0
	for _, n := range b.lens {
		total += n
	}
	packed := b.be.Alloc(b.DType, total, b.TextWidth)
	for i, r := range b.rows.Rows {
		b.be.Upload(packed.Narrow(0, start, b.lens[i]), r.Caption().Data)
		start += b.lens[i]
	}
	return b.text.Forward(b.be, packed)
}

// Embed writes the tokens x of a part.
func (b *batch) Embed(_ int, x, vectors kernels.Tensor) { b.embed.Into(b.be, x, vectors) }

// Advance runs this rank's blocks on the tokens xs in place, and if last is set also the head.
func (b *batch) Advance(xs []kernels.Tensor, at dit.Instant, last bool) ([]kernels.Tensor, error) {
	if at.Generated != nil {
		return nil, errors.New("Open-Sora-Plan cannot continue from given frames")
	}
	be, n, c := b.be, len(at.Timesteps), b.Hidden()
	t := b.timestep.Forward(be, b.DType, b.times(at.Timesteps)) // (B, C)
	silu := be.Alloc(t.DType, t.Shape...)
	be.Unary(silu, t, kernels.SiLU)
	mod := b.blockMod.Forward(be, silu, kernels.Identity).Reshape(n, 1, 6, c)
	for i := range b.flow.Each(b.own) {
		if b.rows.Split != nil {
			b.rows.Split.Group.Block(i)
		}
		if err := b.advance(i, xs, mod); err != nil {
			return nil, err
		}
	}
	if !last {
		return nil, nil
	}
	both := be.Alloc(t.DType, n, 1, 2, c)
	be.Copy(both, t.Reshape(n, 1, 1, c).Expand(n, 1, 2, c))
	ends := nn.ModulationRows(be, b.table, both) // from the timestep itself, not from blockMod
	outs := make([]kernels.Tensor, len(xs))
	for i, x := range xs {
		row := b.rows.Modulation(i, ends, x)
		outs[i] = b.out.Forward(be, nn.Modulate(be, x, row(0), row(1)), kernels.Identity)
	}
	return outs, nil
}

// times returns the timesteps as the network gets them. Version 1.3 rounds them to its type.
func (b *batch) times(timesteps []float32) []float32 {
	if !b.Sparse {
		return timesteps
	}
	out := make([]float32, len(timesteps))
	for i, t := range timesteps {
		out[i] = b.DType.Round(t)
	}
	return out
}

// advance runs block i on the tokens xs of all parts, with the modulation mod (B, 1, 6, C).
func (b *batch) advance(i int, xs []kernels.Tensor, mod kernels.Tensor) error {
	be, l := b.be, b.blocks[i]
	defer be.Scope()()
	mod = nn.ModulationRows(be, l.table, mod)
	if err := b.attend(i, xs, mod); err != nil {
		return err
	}
	for k, x := range xs {
		end := be.Scope()
		row, at := b.rows.Modulation(k, mod, x), b.rows.Parts[k].Rows
		l.cross.addText(be, x, b.kv[i].Narrow(0, at.Start, at.Len), b.lens[at.Start:][:at.Len])
		l.ff.AddTo(be, x, nn.Modulate(be, x, row(3), row(4)), row(5))
		end()
	}
	return nil
}

// attend adds gate * attention(modulate(LN(x))) of block i to each part.
func (b *batch) attend(i int, xs []kernels.Tensor, mod kernels.Tensor) error {
	be, a := b.be, b.blocks[i].self
	defer be.Scope()()
	var qkvs, outs []kernels.Tensor
	for k, x := range xs {
		row := b.rows.Modulation(k, mod, x)
		outs = append(outs, be.Alloc(x.DType, x.Dim(0), x.Dim(1), x.Dim(2), a.heads, a.d))
		qkvs = append(qkvs, a.qkv(be, nn.Modulate(be, x, row(0), row(1)), b.rope, b.rows.Real(k, b.area)))
	}
	pattern := &nn.Pattern{Masks: b.masks, Skip: b.skip(i), Int8: b.Int8}
	if err := nn.AttendFull(be, b.rows.Split, b.DType, outs, qkvs, pattern); err != nil {
		return err
	}
	for k, x := range xs {
		a.add(be, x, outs[k], b.rows.Modulation(k, mod, x)(2))
	}
	return nil
}
