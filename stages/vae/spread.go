package vae

import (
	"context"
	"slices"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// Width returns the number of devices that can decode a video together, 1 if it has only one part.
func (s *decodeStage) Width(row *schemas.PromptRow) int {
	if s.pieces(row) == 1 {
		return 1
	}
	return 0
}

// RunSet decodes each element on all devices, each with a part of the frames. Rank 0 gets all frames.
func (s *decodeStage) RunSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	if set.Ranks() == 1 {
		return s.Run(ctx, set.Devices[0], batch)
	}
	var fit []*stages.Element
	for _, e := range batch {
		if err := s.fromRaw(set.Devices[0], e); err != nil {
			return err
		}
		if err := s.checkLatents(e); err != nil {
			e.Fail("decode_vae", err)
			continue
		}
		fit = append(fit, e)
	}
	return set.Run(ctx, func(ctx context.Context, dev kernels.Backend, g *kernels.Group) error {
		for i, e := range fit {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			g.Step(i)
			if err := s.share(dev, g, i, set.Speeds, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// share decodes one rank's part of element number step.
func (s *decodeStage) share(dev kernels.Backend, g *kernels.Group, step int, speeds []float64, e *stages.Element) error {
	defer dev.Scope()()
	if s.Config.Banded {
		return s.shareRows(dev, g, step, speeds, e)
	}
	segments, err := s.segments(e)
	if err != nil {
		return err
	}
	all, err := stretchesOf(s.Config.Group, segments, speeds)
	if err != nil {
		return err
	}
	parts := make([]stretchState, len(all[g.Rank()]))
	if len(parts) > 0 {
		model, err := s.On(dev)
		if err != nil {
			return err
		}
		for i, st := range all[g.Rank()] {
			if parts[i], err = s.decodeStretch(dev, model, st); err != nil {
				return err
			}
		}
	}
	video := s.clip(e)
	size := 3 * video.Width * video.Height
	var send, recv []kernels.Part
	if g.Rank() != 0 {
		send = partsOut(dev, parts, size)
	} else {
		for peer := 1; peer < g.Size(); peer++ {
			recv = append(recv, partsIn(dev, peer, all[peer], size)...)
		}
	}
	if err := g.Exchange("frames", send, recv); err != nil || g.Rank() != 0 {
		return err
	}
	for peer := 1; peer < g.Size(); peer++ {
		for _, st := range all[peer] {
			p, n, err := received(dev, st, recv, size)
			if err != nil {
				return err
			}
			parts, recv = append(parts, p), recv[n:]
		}
	}
	video.Frames, err = s.assemble(slices.Concat(all...), parts)
	e.Frames = video
	return err
}

// partsOut lists what a rank sends: frames as bytes, stored as bfloat16, which is exact; frames that must be averaged are sent
// as floats.
func partsOut(dev kernels.Backend, parts []stretchState, size int) (out []kernels.Part) {
	for _, p := range parts {
		if len(p.frames) > 0 {
			x := dev.Alloc(kernels.BF16, len(p.frames), size)
			dev.Upload(x, numbers(p.frames, size))
			out = append(out, kernels.Part{Peer: 0, View: x})
		}
		for _, half := range p.halves {
			x := dev.Alloc(kernels.F32, size)
			dev.Upload(x, half)
			out = append(out, kernels.Part{Peer: 0, View: x})
		}
	}
	return out
}

// partsIn lists the destinations for the parts of a peer.
func partsIn(dev kernels.Backend, peer int, stretches []stretch, size int) (in []kernels.Part) {
	for _, st := range stretches {
		if n := st.kept(); n > 0 {
			in = append(in, kernels.Part{Peer: peer, View: dev.Alloc(kernels.BF16, n, size)})
		}
		for range st.halves() {
			in = append(in, kernels.Part{Peer: peer, View: dev.Alloc(kernels.F32, size)})
		}
	}
	return in
}

// received decodes one part and returns how many entries of the list it uses.
func received(dev kernels.Backend, st stretch, list []kernels.Part, size int) (p stretchState, n int, err error) {
	take := func() []float32 {
		values := make([]float32, list[n].View.Len())
		if err == nil {
			err = dev.Download(values, list[n].View)
		}
		n++
		return values
	}
	if st.kept() > 0 {
		p.frames = pictures(take(), size)
	}
	for range st.halves() {
		p.halves = append(p.halves, take())
	}
	return p, n, err
}

// assemble joins the parts of a video. It averages two halves of a frame.
func (s *decodeStage) assemble(stretches []stretch, parts []stretchState) (frames [][]byte, err error) {
	var waiting []float32
	for i, p := range parts {
		if stretches[i].before {
			AverageFrames(s.Config.DType, waiting, p.halves[0])
			frame := make([]byte, len(waiting))
			if err := s.Config.RGB24(frame, waiting); err != nil {
				return nil, fault.Row(err)
			}
			frames = append(frames, frame)
		}
		frames = append(frames, p.frames...)
		if stretches[i].after {
			waiting = p.halves[len(p.halves)-1]
		}
	}
	return frames, nil
}

// framesOf copies n frames, starting at from, of latents (C, T, h, w).
func framesOf(z *stages.Array, from, n int) *stages.Array {
	var frames []int
	for i := range n {
		frames = append(frames, from+i)
	}
	return pick(z, frames)
}

// pick copies the frames with the given numbers from latents (C, T, h, w).
func pick(z *stages.Array, frames []int) *stages.Array {
	c, t, area := z.Shape[0], z.Shape[1], z.Shape[2]*z.Shape[3]
	out := stages.NewArray(c, len(frames), z.Shape[2], z.Shape[3])
	for i := range c {
		for k, frame := range frames {
			copy(out.Data[(i*len(frames)+k)*area:][:area], z.Data[(i*t+frame)*area:])
		}
	}
	return out
}

// numbers converts the bytes of frames of the given size to floats.
func numbers(frames [][]byte, size int) []float32 {
	out := make([]float32, 0, len(frames)*size)
	for _, f := range frames {
		for _, b := range f {
			out = append(out, float32(b))
		}
	}
	return out
}

// pictures is the inverse of numbers.
func pictures(values []float32, size int) [][]byte {
	var out [][]byte
	for at := 0; at < len(values); at += size {
		frame := make([]byte, size)
		for i, v := range values[at : at+size] {
			frame[i] = byte(v)
		}
		out = append(out, frame)
	}
	return out
}
