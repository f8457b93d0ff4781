package vae

import (
	"cmp"
	"fmt"

	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/sequence"
	"latentbeam/stages/vae/stream"
)

// shareRows is share for autoencoders whose frames all depend on each other: each rank decodes some rows of all frames.
func (s *decodeStage) shareRows(dev kernels.Backend, g *kernels.Group, step int, speeds []float64, e *stages.Element) error {
	rows, err := sequence.Cut(e.Latents.Shape[2], speeds)
	if err != nil {
		return err
	}
	frames, err := s.decodeBand(dev, g, step, rows, e)
	if err != nil {
		return err
	}
	video, me := s.clip(e), g.Rank()
	sizes := make([]int, len(rows)) // values in one frame for each rank's rows
	for rank, r := range rows {
		sizes[rank] = r.Len() * s.Config.Downscale() * video.Width * 3
	}
	var mine []float32 // rank 0 does not send its bytes
	if me != 0 {
		mine = numbers(frames, sizes[me])
	}
	parts, err := gather(dev, g, "frames", kernels.BF16, e.Row.NumFrames, sizes, mine)
	if err != nil || me != 0 {
		return err
	}
	if frames == nil {
		frames = make([][]byte, e.Row.NumFrames)
	}
	for rank, part := range parts { // from top to bottom
		for i, below := range pictures(part, sizes[rank]) {
			frames[i] = append(frames[i], below...)
		}
	}
	video.Frames, e.Frames = frames, video
	return nil
}

// gather collects the values (n, size) of all ranks on rank 0. mine are this rank's values; sizes has the size for each rank.
func gather(dev kernels.Backend, g *kernels.Group, what string, dt kernels.DType, n int, sizes []int, mine []float32) (
	parts [][]float32, err error) {
	me, views := g.Rank(), make([]kernels.Tensor, len(sizes))
	var send, recv []kernels.Part
	for rank, size := range sizes {
		if rank == 0 || size == 0 || me != 0 && me != rank {
			continue
		}
		views[rank] = dev.Alloc(dt, n, size)
		if me == 0 {
			recv = append(recv, kernels.Part{Peer: rank, View: views[rank]})
			continue
		}
		dev.Upload(views[rank], mine)
		send = append(send, kernels.Part{Peer: 0, View: views[rank]})
	}
	if err := g.Exchange(what, send, recv); err != nil || me != 0 {
		return nil, err
	}
	parts = make([][]float32, len(sizes))
	parts[0] = mine
	for rank, x := range views {
		if !x.IsZero() {
			parts[rank] = make([]float32, x.Len())
			if err := dev.Download(parts[rank], x); err != nil {
				return nil, err
			}
		}
	}
	return parts, nil
}

// decodeBand returns this rank's rows of all frames, nil if it has none. rows are the latent rows of each rank.
func (s *decodeStage) decodeBand(dev kernels.Backend, g *kernels.Group, step int, rows []sequence.Range,
	e *stages.Element) ([][]byte, error) {
	mine := rows[g.Rank()]
	if mine.Len() == 0 {
		return nil, nil
	}
	bands, err := bandsOf(g, step, rows)
	if err != nil {
		return nil, err
	}
	model, err := s.On(dev)
	if err != nil {
		return nil, err
	}
	z := rowsOf(e.Latents, mine)
	s.unscale(z, e)
	made := frames{config: s.Config}
	err = cmp.Or(model.DecodeBand(dev, z, bands, made.add), fault.Row(made.unreal))
	if err == nil && len(made.all) != e.Row.NumFrames {
		err = fmt.Errorf("%d frames were decoded, want %d", len(made.all), e.Row.NumFrames)
	}
	return made.all, err
}

// bandsOf returns the bands of a group for element number step, nil if this rank has all rows. This rank must have rows.
func bandsOf(g *kernels.Group, step int, rows []sequence.Range) (*stream.Bands, error) {
	var ranks []int // ranks that have rows
	var theirs []sequence.Range
	for rank, r := range rows {
		if r.Len() > 0 {
			ranks, theirs = append(ranks, rank), append(theirs, r)
		}
	}
	if len(ranks) == 1 {
		return nil, nil
	}
	sub, err := g.Sub(ranks, 0)
	if err != nil {
		return nil, err
	}
	sub.Step(step)
	return stream.NewBands(sub, theirs), nil
}

// rowsOf copies rows out of latents (C, T, h, w).
func rowsOf(z *stages.Array, r sequence.Range) *stages.Array {
	c, t, h, w := z.Shape[0], z.Shape[1], z.Shape[2], z.Shape[3]
	out := stages.NewArray(c, t, r.Len(), w)
	for i := range c * t {
		copy(out.Data[i*r.Len()*w:][:r.Len()*w], z.Data[(i*h+r.Lo)*w:])
	}
	return out
}
