package vae

import (
	"cmp"
	"context"

	"latentbeam/internal/fault"
	"latentbeam/internal/plan/sequence"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// group returns how many frames and latent frames are decoded without a look at others: 1 by AutoencoderKL, a
// group of 17 by the autoencoder of Open-Sora 1.2. Those of 1.3 overlap: 0.
func (c Config) group() (frames, latents int) {
	switch a := c.arch.(type) {
	case *KLConfig:
		return 1, 1
	case *PipelineConfig:
		return a.MicroFrameSize, a.latentFrames(a.MicroFrameSize)
	}
	return 0, 0
}

// Width lets as many devices decode a video as are of use, where its frames come in independent groups;
// the clips of a video of several come one after the other.
func (s *decodeStage) Width(row *schemas.PromptRow) int {
	if frames, _ := s.Config.group(); frames == 0 || row.Loop > 1 {
		return 1
	}
	return 0
}

// RunSet lets every device decode a part of the frames of each element; rank 0 gets them all.
func (s *decodeStage) RunSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	if set.Ranks() == 1 {
		return s.Run(ctx, set.Devices[0], batch)
	}
	var fit []*stages.Element
	for _, e := range batch {
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
			if err := s.share(dev, g, set.Speeds, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// share decodes one rank's part of an element.
func (s *decodeStage) share(dev kernels.Backend, g *kernels.Group, speeds []float64, e *stages.Element) error {
	defer dev.Scope()()
	frames, latents := s.Config.group()
	parts, err := sequence.Cut((e.Row.NumFrames+frames-1)/frames, speeds)
	if err != nil {
		return err
	}
	span := func(p sequence.Range, of, limit int) (from, n int) { // of a rank's groups
		from = min(p.Lo*of, limit)
		return from, min(p.Hi*of, limit) - from
	}
	mine := parts[g.Rank()]
	video := s.clip(e)
	if mine.Len() > 0 {
		model, err := s.On(dev)
		if err != nil {
			return err
		}
		from, n := span(mine, latents, e.Latents.Shape[1])
		z := framesOf(e.Latents, from, n)
		s.unscale(z, e)
		_, count := span(mine, frames, e.Row.NumFrames)
		var unreal error // of a frame
		err = model.Decode(dev, z, count, s.micro, func(pixels []float32) {
			frame := make([]byte, len(pixels))
			unreal = cmp.Or(unreal, RGB24(frame, pixels))
			video.Frames = append(video.Frames, frame)
		})
		if err = cmp.Or(err, fault.Row(unreal)); err != nil {
			return err
		}
	}
	// Bytes are whole numbers below 256, which bfloat16 holds exactly.
	size := 3 * video.Width * video.Height
	var send, recv []kernels.Part
	if g.Rank() != 0 && len(video.Frames) > 0 {
		x := dev.Alloc(kernels.BF16, len(video.Frames), size)
		dev.Upload(x, numbers(video.Frames, size))
		send = append(send, kernels.Part{Peer: 0, View: x})
	}
	for peer := 1; g.Rank() == 0 && peer < g.Size(); peer++ {
		if _, n := span(parts[peer], frames, e.Row.NumFrames); n > 0 {
			recv = append(recv, kernels.Part{Peer: peer, View: dev.Alloc(kernels.BF16, n, size)})
		}
	}
	if err := g.Exchange("frames", send, recv); err != nil || g.Rank() != 0 {
		return err
	}
	for _, p := range recv {
		values := make([]float32, p.View.Len())
		if err := dev.Download(values, p.View); err != nil {
			return err
		}
		video.Frames = append(video.Frames, pictures(values, size)...)
	}
	e.Frames = video
	return nil
}

// framesOf copies n frames from one on out of latents (C, T, h, w).
func framesOf(z *stages.Array, from, n int) *stages.Array {
	c, t := z.Shape[0], z.Shape[1]
	area := z.Shape[2] * z.Shape[3]
	out := stages.NewArray(c, n, z.Shape[2], z.Shape[3])
	for i := range c {
		copy(out.Data[i*n*area:][:n*area], z.Data[(i*t+from)*area:])
	}
	return out
}

// numbers are the bytes of frames of the given size.
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
