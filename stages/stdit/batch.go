package stdit

import (
	"errors"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/diffuse/dit"
	"latentbeam/stages/nn"
)

// loaded is a Model for videos of which only every n-th frame is made. The network's conditions count all frames.
type loaded struct {
	*Model
	frameInterval float64
}

// Prepare uploads the texts and conditions of rows to the device. A null text is the negative prompt, or the null caption cut
// to the prompt's length.
func (l *loaded) Prepare(be kernels.Backend, rows *dit.Rows) (dit.Batch, error) {
	var texts []kernels.Tensor
	cond := conditions(&rows.Rows[0].Row)
	for _, r := range rows.Rows {
		caption := r.Caption()
		if caption == nil {
			texts = append(texts, l.NullText(be, r.Text.Embedding.Shape[0]))
		} else {
			t := be.Alloc(kernels.F32, caption.Shape...)
			be.Upload(t, caption.Data)
			texts = append(texts, t)
		}
		cond.FPS = append(cond.FPS, frameRate(&r.Row, l.frameInterval))
	}
	p, err := l.Model.Prepare(be, rows.Size, cond, texts)
	if err == nil && rows.Given != nil {
		err = l.insertGiven(be, p, rows)
	}
	if err != nil {
		return nil, err
	}
	return l.batch(be, p, rows.Parts, rows.Split), nil
}

// conditions returns the conditions of a batch. Its rows have one size.
func conditions(row *schemas.PromptRow) Conditions {
	return Conditions{Height: float64(row.Height), Width: float64(row.Width), NumFrames: float64(row.NumFrames)}
}

// frameRate returns the frame rate that the network gets as a condition.
func frameRate(row *schemas.PromptRow, frameInterval float64) float64 {
	if row.NumFrames == 1 {
		return ImageFPS
	}
	return row.FPS * frameInterval
}

// insertGiven passes the given frames to the network. The first two branches see them, the third does not.
func (l *loaded) insertGiven(be kernels.Backend, p *Prepared, rows *dit.Rows) error {
	g, size := rows.Given, rows.Size
	where, none := make([]float32, len(g.Latents)), make([]float32, len(g.Latents))
	for i := range where {
		if g.Frames[i/(size.H*size.W)%size.T] {
			where[i] = 1
		}
	}
	var frames []int
	for t, given := range g.Frames {
		if given {
			frames = append(frames, t)
		}
	}
	var seen, places []float32
	for _, row := range rows.Rows {
		if places = append(places, where...); row.Branch == 2 {
			seen = append(seen, none...)
		} else {
			seen = append(seen, g.Latents...)
		}
	}
	upload := func(values []float32) kernels.Tensor { // (B, C, T, H, W)
		x := be.Alloc(kernels.F32, len(rows.Rows), l.InChannels, size.T, size.H, size.W)
		be.Upload(x, values)
		return x
	}
	return l.Condition(be, p, upload(seen), upload(places), frames)
}

// batch is the network for some rows: p for all of them and all patches, and for each part what it needs.
type batch struct {
	m     *Model
	be    kernels.Backend
	p     *Prepared
	split *nn.Split
	parts []part // without tokens
}

func (m *Model) batch(be kernels.Backend, p *Prepared, parts []nn.Part, split *nn.Split) *batch {
	b := &batch{m: m, be: be, p: p, split: split}
	for _, at := range parts {
		b.parts = append(b.parts, part{rows: at.Rows, p: p.slice(at.Rows, at.Patches)})
	}
	return b
}

// Embed writes the tokens x of a part.
func (b *batch) Embed(i int, x, vectors kernels.Tensor) {
	p := b.parts[i].p
	b.m.patch.Into(b.be, x, vectors)
	p.addGiven(b.be, x)
	b.be.Binary(x, x, p.spatial.Expand(x.Shape...), kernels.Add)
}

// Advance runs this rank's blocks on the tokens xs in place, and if last is set also the final layer.
func (b *batch) Advance(xs []kernels.Tensor, at dit.Instant, last bool) ([]kernels.Tensor, error) {
	f, err := nn.NewFrameMask(at.Generated, len(at.Timesteps), b.p.times.Len)
	if err == nil && f.Given() && b.m.Version == OpenSora10 {
		err = errors.New("Open-Sora 1.0 cannot continue from given frames, 1.1 and later can")
	}
	if err != nil {
		return nil, err
	}
	s := &stream{p: b.p, dt: b.m.DType, split: b.split}
	for i, p := range b.parts {
		p.x = xs[i]
		s.parts = append(s.parts, p)
	}
	t := b.m.timestep.Forward(b.be, b.m.DType, f.Timesteps(b.m.rounded(at.Timesteps))) // (B or 2B, C)
	if t, err = b.m.net.forward(b.be, s, t, f); err != nil || !last {
		return nil, err
	}
	tokens := make([]kernels.Tensor, len(s.parts)) // (n, T', W, K)
	for i := range s.parts {
		tokens[i] = b.m.final.forward(b.be, &s.parts[i], t, f)
	}
	return tokens, nil
}
