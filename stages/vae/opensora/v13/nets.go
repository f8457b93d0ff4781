package v13

import (
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// encoder is VideoEncoder.
type encoder struct {
	convIn  nn.CausalConv // conv_in (C, 3, 3, 3, 3)
	down    []downLevel   // down.N
	mid     mid
	normOut nn.GroupNorm  // norm_out
	convOut nn.CausalConv // conv_out (2z, C_last, 3, 3, 3)
}

// downLevel is a level of the encoder: blocks, then half the size except in the last level, and half the frames in some levels.
type downLevel struct {
	blocks []block        // block.J
	frames *nn.CausalConv // downsample.conv (C, C, 3, 3, 3) of stride 2 in time and space
	space  *nn.Conv       // downsample.conv (C, C, 3, 3) of stride 2
}

func loadEncoder(w *weights.Weights, c *EncoderConfig) encoder {
	e := encoder{convIn: nn.LoadCausalConv(w.Sub("conv_in.conv"), c.InChannels, c.Ch, 3)}
	in := c.Ch
	for i, m := range c.ChMult {
		level, out := w.Subf("down.%d", i), m*c.Ch
		d := downLevel{blocks: loadBlocks(level, in, out, c.NumResBlocks)}
		in = out
		switch {
		case i == len(c.ChMult)-1:
		case slices.Contains(c.DownSamplingLayer, i):
			conv := nn.LoadCausalConv(level.Sub("downsample.conv.conv"), in, in, 3)
			d.frames = &conv
		default:
			conv := nn.LoadConv(level.Sub("downsample.conv"), in, in, 3)
			d.space = &conv
		}
		e.down = append(e.down, d)
	}
	e.mid = loadMid(w.Sub("mid"), in)
	e.normOut = nn.LoadGroupNorm(w.Sub("norm_out"), in, groups, normEps)
	e.convOut = nn.LoadCausalConv(w.Sub("conv_out.conv"), in, 2*c.ZChannels, 3)
	return e
}

func loadBlocks(w *weights.Weights, in, out, n int) []block {
	var blocks []block
	for j := range n {
		blocks = append(blocks, loadBlock(w.Subf("block.%d", j), in, out))
		in = out
	}
	return blocks
}

// forward returns the moments (1, T', h, w, 2z) of pixels x (1, T, H, W, 3): mean, then log variance.
func (e encoder) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	x = e.convIn.Forward(be, x) // (1, T, H, W, C)
	for _, d := range e.down {
		for _, b := range d.blocks {
			x = b.forward(be, x) // (1, T, H, W, C)
		}
		switch {
		case d.frames != nil:
			x = d.frames.Halve(be, x, d.frames.W.Dim(2)-1, true) // (1, T/2, H/2, W/2, C), rounded up
		case d.space != nil:
			x = eachFrame(be, x, x.Dim(2)/2, x.Dim(3)/2, d.space.DownsampleInto) // (1, T, H/2, W/2, C)
		}
	}
	x = e.mid.forward(be, x) // (1, T', h, w, C_last)
	normSwish(be, x, x, e.normOut)
	return e.convOut.Forward(be, x)
}

// eachFrame applies a 2D convolution, which returns images of height x width, to every frame of x (N, T, H, W, C).
func eachFrame(be kernels.Backend, x kernels.Tensor, height, width int,
	into func(be kernels.Backend, dst, x kernels.Tensor)) kernels.Tensor {
	n, t, c := x.Dim(0), x.Dim(1), x.Dim(4)
	y := be.Alloc(x.DType, n, t, height, width, c) // (N, T, H', W', C)
	into(be, y.Reshape(n*t, height, width, c), x.Reshape(n*t, x.Dim(2), x.Dim(3), c))
	return y
}

// decoder is VideoDecoder. Its levels run from the last and widest to the first.
type decoder struct {
	convIn  nn.CausalConv // conv_in (C_last, z, 3, 3, 3)
	mid     mid
	up      []upLevel     // up.N, by N
	normOut nn.GroupNorm  // norm_out
	convOut nn.CausalConv // conv_out (3, C, 3, 3, 3)
	drop    int           // number of first frames that are removed from the result
}

// upLevel is a level of the decoder: blocks, then twice the size except in level 0, and twice the frames in some levels.
type upLevel struct {
	blocks []block  // block.J
	frames *enlarge // upsample
	space  *nn.Conv // upsample.conv (C, C, 3, 3)
}

func loadDecoder(w *weights.Weights, c *DecoderConfig) decoder {
	levels := len(c.ChMult)
	in := c.Ch * c.ChMult[levels-1]
	d := decoder{convIn: nn.LoadCausalConv(w.Sub("conv_in.conv"), c.ZChannels, in, 3),
		mid: loadMid(w.Sub("mid"), in), up: make([]upLevel, levels), drop: 1<<len(c.TemporalUpLayers) - 1}
	for i := levels - 1; i >= 0; i-- {
		level, out := w.Subf("up.%d", i), c.Ch*c.ChMult[i]
		u := upLevel{blocks: loadBlocks(level, in, out, c.NumResBlocks+1)}
		in = out
		switch {
		case i == 0:
		case slices.Contains(c.TemporalUpLayers, i):
			u.frames = loadEnlarge(level.Sub("upsample"), in)
		default:
			conv := nn.LoadConv(level.Sub("upsample.conv"), in, in, 3)
			u.space = &conv
		}
		d.up[i] = u
	}
	d.normOut = nn.LoadGroupNorm(w.Sub("norm_out"), in, groups, normEps)
	d.convOut = nn.LoadCausalConv(w.Sub("conv_out"), in, c.OutCh, 3)
	return d
}

// forward returns pixels (1, 4T-3, H, W, 3) of latents z (1, T, h, w, z).
func (d decoder) forward(be kernels.Backend, z kernels.Tensor) kernels.Tensor {
	x := d.mid.forward(be, d.convIn.Forward(be, z)) // (1, T, h, w, C_last)
	for i := len(d.up) - 1; i >= 0; i-- {
		u := d.up[i]
		for _, b := range u.blocks {
			x = b.forward(be, x) // (1, T, H, W, C)
		}
		switch {
		case u.frames != nil:
			x = u.frames.forward(be, x) // (1, 2T, 2H, 2W, C)
		case u.space != nil:
			x = eachFrame(be, x, 2*x.Dim(2), 2*x.Dim(3), u.space.UpsampleInto) // (1, T, 2H, 2W, C)
		}
	}
	normSwish(be, x, x, d.normOut)
	x = d.convOut.Forward(be, x) // (1, 4T, H, W, 3)
	return x.Narrow(1, d.drop, x.Dim(1)-d.drop)
}
