package stdit

import (
	"context"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// evaluation is the network applied to one batch on its device.
type evaluation struct {
	dev           kernels.Backend
	model         *Model
	size          Size // of the latents
	frameInterval float64
	image         *imageInput // frames that 1.3 is conditioned on
	prepared      *Prepared
	out           []float32
}

// row is a row of the forward: an element in one branch of guidance. Branch 0 is under its prompt, those behind it
// under its null text; branch 2 does not see given images.
type row struct {
	*stages.Element
	branch int
}

// rowsOf are the rows as the sampler orders them: branch by branch.
func rowsOf(batch []*stages.Element, branches int) (rows []row) {
	for b := range branches {
		for _, e := range batch {
			rows = append(rows, row{e, b})
		}
	}
	return rows
}

// prepare brings the texts and conditions of rows to the device. A null text is the negative prompt, or
// the null caption cut to the prompt's length.
func (r *evaluation) prepare(rows []row) (*Prepared, error) {
	var texts []kernels.Tensor
	cond := conditions(&rows[0].Row)
	for _, e := range rows {
		text := e.Text.Embedding
		if e.branch > 0 {
			text = e.Text.Negative
		}
		if text == nil {
			texts = append(texts, r.model.NullText(r.dev, e.Text.Embedding.Shape[0]))
		} else {
			t := r.dev.Alloc(kernels.F32, text.Shape...)
			r.dev.Upload(t, text.Data)
			texts = append(texts, t)
		}
		cond.FPS = append(cond.FPS, frameRate(&e.Row, r.frameInterval))
	}
	p, err := r.model.Prepare(r.dev, r.size, cond, texts)
	if err == nil && r.image != nil {
		err = r.give(p, rows)
	}
	return p, err
}

// conditions are those that a whole batch shares; its rows have one size.
func conditions(row *schemas.PromptRow) Conditions {
	return Conditions{Height: float64(row.Height), Width: float64(row.Width), NumFrames: float64(row.NumFrames)}
}

// frameRate is the one that the network is told.
func frameRate(row *schemas.PromptRow, frameInterval float64) float64 {
	if row.NumFrames == 1 {
		return ImageFPS
	}
	return row.FPS * frameInterval
}

// evaluate is the network as the sampler sees it.
func (r *evaluation) evaluate(_ context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
	defer r.dev.Scope()()
	b, c := len(timesteps), r.model.InChannels
	x := r.dev.Alloc(kernels.F32, b, c, r.size.T, r.size.H, r.size.W) // (B, C, T, H, W)
	r.dev.Upload(x, rows)
	out, err := r.model.Forward(r.dev, x, timesteps, generated, r.prepared) // (B, 2C, T, H, W)
	if err != nil {
		return nil, err
	}
	if len(r.out) != out.Len() {
		r.out = make([]float32, out.Len())
	}
	return r.out, r.dev.Download(r.out, out)
}
