package wan

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weights"
)

// encoder is "encoder", followed by "quant_conv".
type encoder struct {
	convIn  stream.Conv   // conv_in (C, 3 p p, 3, 3, 3)
	down    []downLevel   // down_blocks
	middle  middle        // mid_block
	normOut norm          // norm_out
	convOut stream.Conv   // conv_out (2z, C_last, 3, 3, 3)
	quant   nn.CausalConv // quant_conv (2z, 2z, 1, 1, 1)
	patch   int
	convs   *stream.Convs
}

// downLevel is a level: blocks, then half the height and width except in the last level, and half the frames in some levels.
type downLevel struct {
	level
	blocks []stream.Block
	space  *stream.Frames // resample.1 (C, C, 3, 3) of stride 2, nil in the last level
	frames *stream.Conv   // time_conv (C, C, 3, 1, 1) of stride 2; nil if the frames stay
	mean   *shortcut      // of Wan 2.2
}

func loadEncoder(w *weights.Weights, c *Config) encoder {
	e := encoder{patch: c.patch(), convs: &stream.Convs{}}
	l := stream.Loader{Weights: w.Sub("encoder"), Convs: e.convs}
	e.convIn = cube(l, "conv_in", c.InChannels, c.BaseDim)
	flat := 0 // Wan 2.1 numbers blocks and halvings in one list
	for i, v := range c.downLevels() {
		d := downLevel{level: v}
		resample := l
		if c.IsResidual {
			at := l.Subf("down_blocks.%d", i)
			d.blocks, resample = loadBlocks(at, v.in, v.out, c.NumResBlocks), at.Sub("downsampler")
			d.mean = &shortcut{v}
		} else {
			in := v.in
			for range c.NumResBlocks {
				d.blocks = append(d.blocks, loadBlock(l.Subf("down_blocks.%d", flat), in, v.out))
				in = v.out
				flat++
			}
			resample = l.Subf("down_blocks.%d", flat)
			flat++
		}
		if v.space {
			conv := resample.Images("resample.1", v.out, v.out)
			conv.Stride = 2
			d.space = &conv
			l.Level++
		}
		if v.time {
			resample.Level = l.Level
			d.frames = frames(resample, "time_conv", v.out, v.out, 2)
		}
		e.down = append(e.down, d)
	}
	last := c.DimMult[len(c.DimMult)-1] * c.BaseDim
	e.middle = loadMiddle(l.Sub("mid_block"), last)
	e.normOut = loadNorm(l.Sub("norm_out"), last, 1, 1, 1)
	e.convOut = cube(l, "conv_out", last, 2*c.ZDim)
	e.quant = nn.LoadCausalConv(w.Sub("quant_conv"), 2*c.ZDim, 2*c.ZDim, 1)
	return e
}

// start returns the stream for a clip of height x width pixels. With bands these are the pixels of this rank's rows.
func (e *encoder) start(be kernels.Backend, dt kernels.DType, height, width int, bands *stream.Bands) *stream.Stream {
	return e.convs.Start(be, dt, bands, func(level int) (int, int) {
		return height / e.patch >> level, width / e.patch >> level
	})
}

// forward encodes the next frames x (1, T, H, W, 3), first 1 frame and then 4 at a time. It returns their moments (1, 1, h, w,
// 2z): mean, then log variance.
func (e *encoder) forward(s *stream.Stream, x kernels.Tensor, first bool) kernels.Tensor {
	t, h, w := x.Dim(1), x.Dim(2)/e.patch, x.Dim(3)/e.patch
	y := s.Alloc(s.DType, 1, t, h, w, e.convIn.W.Dim(0)) // (1, T, H, W, C)
	end := s.Scope()
	room, fill := s.Input(e.convIn, t, h, w)
	patch(s, fill, x, e.patch)
	s.Convolve(e.convIn, y, room, kernels.Tensor{})
	end()
	for _, d := range e.down {
		y = d.forward(s, y, first) // (1, T/2, H/2, W/2, C) and so on
	}
	y = e.middle.forward(s, y) // (1, 1, h, w, C_last)
	room, fill = s.Input(e.convOut, 1, y.Dim(2), y.Dim(3))
	e.normOut.Into(s, fill, y, kernels.SiLU)
	moments := s.Alloc(s.DType, 1, 1, y.Dim(2), y.Dim(3), e.convOut.W.Dim(0)) // (1, 1, h, w, 2z)
	s.Convolve(e.convOut, moments, room, kernels.Tensor{})
	return e.quant.Forward(s, moments)
}

// forward returns the level's output for x (1, T, H, W, Cin). Halves of height and width are rounded down.
func (d downLevel) forward(s *stream.Stream, x kernels.Tensor, first bool) kernels.Tensor {
	t, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	if d.space != nil {
		h, w = h/2, w/2
	}
	if d.frames != nil && !first {
		t /= 2
	}
	y := s.Alloc(s.DType, 1, t, h, w, d.out) // (1, T', H', W', C)
	defer s.Scope()()
	var residual kernels.Tensor
	if d.mean != nil {
		d.mean.average(s, y, x)
		residual = y
	}
	x = stream.Through(s, d.blocks, x) // (1, T, H, W, C)
	switch {
	case d.frames != nil:
		d.halve(s, y, x, residual, first)
	case d.space != nil:
		s.Frames(*d.space, y, x, residual)
	case residual.IsZero():
		s.Copy(y, x)
	default:
		s.Binary(y, residual, x, kernels.Add)
	}
	return y
}

// halve computes y (1, T/2, H/2, W/2, C) from x (1, T, H, W, C). The first frame of a clip is halved only in height and width.
func (d downLevel) halve(s *stream.Stream, y, x, residual kernels.Tensor, first bool) {
	room, fill := s.Input(*d.frames, x.Dim(1), y.Dim(2), y.Dim(3))
	s.Frames(*d.space, fill, x, kernels.Tensor{})
	switch {
	case !first:
		s.Convolve(*d.frames, y, room, residual)
		return
	case residual.IsZero():
		s.Copy(y, fill)
	default:
		s.Binary(y, residual, fill, kernels.Add)
	}
	s.Remember(*d.frames, room)
}

// patch is the inverse of unpatch: it fills dst (1, T, H/p, W/p, 3 p p) with x (1, T, H, W, 3).
func patch(be kernels.Backend, dst, x kernels.Tensor, p int) {
	if p == 1 {
		be.Copy(dst, x)
		return
	}
	t, h, w := dst.Dim(1), dst.Dim(2), dst.Dim(3)
	be.Copy(dst.Reshape(t, h, w, 3, p, p), x.Reshape(t, h, p, w, p, 3).Permute(0, 1, 3, 5, 4, 2))
}
