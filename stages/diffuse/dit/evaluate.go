package dit

import (
	"context"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/sampler"
	"latentbeam/stages/nn"
)

// Evaluator prepares rows on a device that has all their columns, and returns the network as a sampler calls it. Tensors are
// allocated in the scope open at the call.
func (d *Description) Evaluator(dev kernels.Backend, m Model, rows *Rows) (sampler.Model, error) {
	rows.Box, rows.Parts = d.Box, d.alone(len(rows.Rows), rows.Size)
	b, err := m.Prepare(dev, rows)
	if err != nil {
		return nil, err
	}
	var out []float32
	return func(_ context.Context, latents, timesteps []float32, generated []bool) ([]float32, error) {
		defer dev.Scope()()
		size := rows.Size
		x := dev.Alloc(kernels.F32, len(timesteps), d.Channels, size.T, size.H, size.W) // (B, C, T, H, W)
		dev.Upload(x, latents)
		y, err := d.Forward(dev, b, x, Instant{timesteps, generated}) // (B, C', T, H, W)
		if err != nil {
			return nil, err
		}
		if len(out) != y.Len() {
			out = make([]float32, y.Len())
		}
		return out, dev.Download(out, y)
	}, nil
}

// Forward evaluates rows once on a device that has all their columns, in the scope open at the call. Latents x (B, c, T, H, W)
// give a prediction (B, c_out, T, H, W) in fp32.
func (d *Description) Forward(be kernels.Backend, b Batch, x kernels.Tensor, at Instant) (kernels.Tensor, error) {
	n, t, h, w := x.Dim(0), x.Dim(2), x.Dim(3), x.Dim(4)
	out := be.Alloc(kernels.F32, n, d.OutChannels, t, h, w) // (B, c_out, T, H, W)
	defer be.Scope()()
	box := LatentSize{t, h, w}.In(d.Box)
	frames, rows, cols := d.Patch.Grid(box.T, box.H, box.W)
	tokens := be.Alloc(d.DType, n, frames, rows*cols, d.Hidden) // (B, T', S, C)
	d.embed(be, b, tokens, x)
	outs, err := b.Advance([]kernels.Tensor{tokens}, at, true)
	if err != nil {
		return kernels.Tensor{}, err
	}
	nn.UnpatchifyFrom(be, out, outs[0], d.Patch, [3]int{box.T, box.H, box.W}) // of (B, T', S, pt ph pw c_out)
	return out, nil
}

// embed writes the tokens (B, T', S, C) of latents x (B, c, T, H, W).
func (d *Description) embed(be kernels.Backend, b Batch, tokens, x kernels.Tensor) {
	defer be.Scope()()
	box := LatentSize{x.Dim(2), x.Dim(3), x.Dim(4)}.In(d.Box)
	b.Embed(0, tokens, nn.PatchifyInto(be, d.DType, x, d.Patch, [3]int{box.T, box.H, box.W}))
}
