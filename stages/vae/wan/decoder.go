package wan

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/vae/stream"
	"latentbeam/stages/weights"
)

// decoder is "decoder" after "post_quant_conv".
type decoder struct {
	postQuant nn.CausalConv // post_quant_conv (z, z, 1, 1, 1)
	convIn    stream.Conv   // conv_in (C, z, 3, 3, 3)
	middle    middle        // mid_block
	up        []upLevel     // up_blocks.N, widest first
	normOut   norm          // norm_out
	convOut   stream.Conv   // conv_out (3 p p, C_0, 3, 3, 3)
	patch     int
	convs     *stream.Convs
}

// upLevel is a level: blocks, then twice the height and width except in the last level, and twice the frames in some levels.
type upLevel struct {
	level
	blocks []stream.Block // resnets.N, one more than num_res_blocks
	frames *stream.Conv   // time_conv (2C, C, 3, 1, 1); nil if the frames stay
	space  *stream.Frames // resample.1 (C', C, 3, 3), nil in the last level
	repeat *shortcut      // of Wan 2.2, nil in the last level
}

func loadDecoder(w *weights.Weights, c *Config) decoder {
	levels := c.upLevels()
	d := decoder{postQuant: nn.LoadCausalConv(w.Sub("post_quant_conv"), c.ZDim, c.ZDim, 1), patch: c.patch(), convs: &stream.Convs{}}
	l := stream.Loader{Weights: w.Sub("decoder"), Convs: d.convs}
	d.convIn = cube(l, "conv_in", c.ZDim, levels[0].in)
	d.middle = loadMiddle(l.Sub("mid_block"), levels[0].in)
	for i, v := range levels {
		u := upLevel{level: v}
		at := l.Subf("up_blocks.%d", i)
		u.blocks = loadBlocks(at, v.in, v.out, c.NumResBlocks+1)
		if v.space {
			out := v.out / 2
			resample := at.Sub("upsamplers.0")
			if c.IsResidual {
				out, resample = v.out, at.Sub("upsampler")
				u.repeat = &shortcut{v}
			}
			if v.time {
				u.frames = frames(resample, "time_conv", v.out, 2*v.out, 1)
			}
			conv := resample.Images("resample.1", v.out, out)
			conv.Upsample = 2
			u.space = &conv
			l.Level++
		}
		d.up = append(d.up, u)
	}
	last := levels[len(levels)-1].out
	d.normOut = loadNorm(l.Sub("norm_out"), last, 1, 1, 1)
	d.convOut = cube(l, "conv_out", last, c.OutChannels)
	return d
}

// start returns the stream for a clip whose latents are h x w on this rank.
func (d *decoder) start(be kernels.Backend, dt kernels.DType, h, w int, bands *stream.Bands) *stream.Stream {
	return d.convs.Start(be, dt, bands, func(level int) (int, int) { return h << level, w << level })
}

// forward decodes the next latent frame z (1, 1, h, w, z) to pixels (1, T, H, W, 3): 1 frame for the first, 4 for each other.
func (d *decoder) forward(s *stream.Stream, z kernels.Tensor, first bool) kernels.Tensor {
	room, fill := s.Input(d.convIn, 1, z.Dim(2), z.Dim(3))
	d.postQuant.Into(s, fill, z, kernels.Tensor{})
	x := s.Alloc(s.DType, 1, 1, z.Dim(2), z.Dim(3), d.convIn.W.Dim(0)) // (1, 1, h, w, C)
	s.Convolve(d.convIn, x, room, kernels.Tensor{})
	x = d.middle.forward(s, x) // (1, 1, h, w, C)
	for _, u := range d.up {
		x = u.forward(s, x, first) // (1, 2T, 2H, 2W, C) and so on
	}
	t, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	pixels := s.Alloc(s.DType, 1, t, h, w, d.convOut.W.Dim(0)) // (1, T, H, W, 3 p p)
	room, fill = s.Input(d.convOut, t, h, w)
	d.normOut.Into(s, fill, x, kernels.SiLU)
	s.Convolve(d.convOut, pixels, room, kernels.Tensor{})
	return unpatch(s, pixels, d.patch)
}

// forward returns the level's output for x (1, T, H, W, Cin). Only the output outlives the call, because at full size these
// tensors are most of the memory of a decoder.
func (u upLevel) forward(s *stream.Stream, x kernels.Tensor, first bool) kernels.Tensor {
	if u.space == nil {
		return stream.Through(s, u.blocks, x)
	}
	t, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	if u.frames != nil && !first {
		t *= 2
	}
	y := s.Alloc(s.DType, 1, t, 2*h, 2*w, u.space.W.Dim(0)) // (1, T', 2H, 2W, C')
	defer s.Scope()()
	var residual kernels.Tensor
	if u.repeat != nil {
		u.repeat.repeat(s, y, x)
		residual = y
	}
	x = stream.Through(s, u.blocks, x) // (1, T, H, W, C)
	if u.frames != nil && !first {
		x = u.double(s, x) // (1, 2T, H, W, C)
	}
	s.Frames(*u.space, y, x, residual)
	return y
}

// double returns x with twice the frames (1, 2T, H, W, C): the first half of time_conv's channels is the earlier frame of two.
// The first frame of a clip is not doubled and must not be passed.
func (u upLevel) double(s *stream.Stream, x kernels.Tensor) kernels.Tensor {
	t, h, w, c := x.Dim(1), x.Dim(2), x.Dim(3), x.Dim(4)
	y := s.Alloc(s.DType, 1, t, 2, h, w, c)
	defer s.Scope()()
	room, fill := s.Input(*u.frames, t, h, w)
	s.Copy(fill, x)
	both := s.Alloc(s.DType, 1, t, h, w, 2*c) // (1, T, H, W, 2C)
	s.Convolve(*u.frames, both, room, kernels.Tensor{})
	s.Copy(y, both.Reshape(1, t, h, w, 2, c).Permute(0, 1, 4, 2, 3, 5))
	return y.Reshape(1, 2*t, h, w, c)
}

// unpatch returns the pixels (1, T, p H, p W, 3) of x (1, T, H, W, 3 p p), whose channels are (color, column, row) of a patch.
func unpatch(be kernels.Backend, x kernels.Tensor, p int) kernels.Tensor {
	if p == 1 {
		return x
	}
	t, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	y := be.Alloc(x.DType, t, h, p, w, p, 3)
	be.Copy(y, x.Reshape(t, h, w, 3, p, p).Permute(0, 1, 5, 2, 4, 3))
	return y.Reshape(1, t, p*h, p*w, 3)
}
