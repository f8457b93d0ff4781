package stdit

import (
	"context"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// evaluation is the network applied to one batch on its device.
type evaluation struct {
	dev      kernels.Backend
	model    *Model
	size     Size // of the latents
	prepared *Prepared
	out      []float32
}

// prepare brings texts and conditions to the device: the prompts, then under guidance the null caption cut to
// each prompt's length, or the negative prompt.
func (r *evaluation) prepare(batch []*stages.Element, guided bool, frameInterval float64) (err error) {
	var texts []kernels.Tensor
	upload := func(a *stages.Array) {
		t := r.dev.Alloc(kernels.F32, a.Shape...)
		r.dev.Upload(t, a.Data)
		texts = append(texts, t)
	}
	cond := conditions(&batch[0].Row)
	for _, e := range batch {
		upload(e.Text.Embedding)
		cond.FPS = append(cond.FPS, frameRate(&e.Row, frameInterval))
	}
	if guided {
		for _, e := range batch {
			if e.Text.Negative != nil {
				upload(e.Text.Negative)
			} else {
				texts = append(texts, r.model.NullText(r.dev, e.Text.Embedding.Shape[0]))
			}
		}
		cond.FPS = append(cond.FPS, cond.FPS...)
	}
	r.prepared, err = r.model.Prepare(r.dev, r.size, cond, texts)
	return err
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
