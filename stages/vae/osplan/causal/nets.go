package causal

import (
	"latentbeam/kernels"
	"latentbeam/stages/weights"
)

// encoder is "encoder", followed by "quant_conv".
type encoder struct {
	convIn  conv // conv_in
	down    []level
	middle  middle
	normOut norm // norm_out
	convOut conv // conv_out (2z, C_last, 3, 3, 3)
	quant   *conv
}

// level is a list of blocks, followed by a layer that halves or doubles.
type level struct {
	blocks []block
	space  *conv  // downsample or upsample; nil if height and width stay
	is     resize // describes space
	time   bool   // the frames are halved or doubled by a separate layer after space
}

func loadEncoder(w *weights.Weights, c *Config) encoder {
	var e encoder
	if c.UseQuantLayer {
		q := loadConv(w, "quant_conv", c.QConv, 2*c.ZChannels, 2*c.EmbedDim, 1, 1)
		e.quant = &q
	}
	w = w.Sub("encoder")
	in := c.HiddenSize
	e.convIn = loadConv(w, "conv_in", c.EncoderConvIn, 3, in, 3, 3)
	for i, m := range c.HiddenSizeMult {
		out := m * c.HiddenSize
		l := loadLevel(w.Subf("down.%d", i), c.EncoderBlocks[i], in, out, c.NumResBlocks)
		if name := c.EncoderSpace[i]; name != "" {
			l.resize(w.Subf("down.%d.downsample", i), halvings[name], out)
			l.space.stride = 2
			if l.is.time {
				l.space.strideT = 2
			}
		}
		l.time = c.EncoderTime[i] != ""
		e.down = append(e.down, l)
		in = out
	}
	e.middle = loadMiddle(w, c.EncoderMiddle, c.EncoderAttention, in)
	e.normOut = loadNorm(w, "norm_out", in, false)
	e.convOut = loadConv(w, "conv_out", c.EncoderConvOut, in, 2*c.ZChannels, 3, 3)
	return e
}

func loadLevel(w *weights.Weights, kind string, in, out, n int) (l level) {
	for j := range n {
		l.blocks = append(l.blocks, loadBlock(w.Subf("block.%d", j), kind, in, out))
		in = out
	}
	return l
}

// resize reads the convolution that halves or doubles, for c channels.
func (l *level) resize(w *weights.Weights, is resize, c int) {
	kind := conv3D
	if is.single {
		kind = conv2D
	}
	space := loadConv(w, "conv", kind, c, c, is.frames, 3)
	l.space, l.is = &space, is
}

func (l level) through(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	for _, b := range l.blocks {
		x = b.forward(be, x) // (1, T, H, W, C)
	}
	return x
}

// forward returns the moments (1, T', h, w, 2e) of pixels x (1, T, H, W, 3): mean, then log variance.
func (e encoder) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	x = e.convIn.apply(be, x) // (1, T, H, W, C)
	for _, l := range e.down {
		x = l.through(be, x)
		if l.space != nil {
			x = l.space.apply(be, x) // (1, T', H/2, W/2, C)
		}
		if l.time {
			x = halveTime(be, x) // (1, T/2, H, W, C), rounded up
		}
	}
	x = e.middle.forward(be, x)
	e.normOut.into(be, x, x, kernels.SiLU)
	x = e.convOut.apply(be, x) // (1, T', h, w, 2z)
	if e.quant != nil {
		x = e.quant.apply(be, x)
	}
	return x
}

// decoder is "decoder" after "post_quant_conv". Its levels run from the last and widest to the first.
type decoder struct {
	postQuant *conv
	convIn    conv // conv_in (C_last, z, 3, 3, 3)
	middle    middle
	up        []level // up.N, by N
	normOut   norm    // norm_out
	convOut   conv    // conv_out (3, C, 3, 3, 3)
}

func loadDecoder(w *weights.Weights, c *Config) decoder {
	var d decoder
	if c.UseQuantLayer {
		q := loadConv(w, "post_quant_conv", c.QConv, c.EmbedDim, c.ZChannels, 1, 1)
		d.postQuant = &q
	}
	w = w.Sub("decoder")
	levels := len(c.HiddenSizeMult)
	in := c.HiddenSize * c.HiddenSizeMult[levels-1]
	d.convIn = loadConv(w, "conv_in", c.DecoderConvIn, c.ZChannels, in, 3, 3)
	d.middle = loadMiddle(w, c.DecoderMiddle, c.DecoderAttention, in)
	d.up = make([]level, levels)
	for i := levels - 1; i >= 0; i-- {
		out := c.HiddenSize * c.HiddenSizeMult[i]
		l := loadLevel(w.Subf("up.%d", i), c.DecoderBlocks[i], in, out, c.NumResBlocks+1)
		if name := c.DecoderSpace[i]; name != "" {
			if l.resize(w.Subf("up.%d.upsample", i), doublings[name], out); !l.is.linear {
				l.space.upscale = 2
			}
		}
		l.time = c.DecoderTime[i] != ""
		d.up[i] = l
		in = out
	}
	d.normOut = loadNorm(w, "norm_out", in, false)
	d.convOut = loadConv(w, "conv_out", c.DecoderConvOut, in, 3, 3, 3)
	return d
}

// forward returns pixels (1, 4T-3, H, W, 3) of latents z (1, T, h, w, e).
func (d decoder) forward(be kernels.Backend, z kernels.Tensor) kernels.Tensor {
	if d.postQuant != nil {
		z = d.postQuant.apply(be, z)
	}
	x := d.middle.forward(be, d.convIn.apply(be, z)) // (1, T, h, w, C_last)
	for i := len(d.up) - 1; i >= 0; i-- {
		l := d.up[i]
		x = l.through(be, x)
		switch {
		case l.space == nil:
		case l.is.linear:
			x = l.space.interpolated(be, x, l.is.time) // (1, 2T-1, 2H, 2W, C)
		default:
			x = l.space.apply(be, x) // (1, T, 2H, 2W, C)
		}
		if l.time {
			x = doubleTime(be, x) // (1, 2T-1, H, W, C)
		}
	}
	d.normOut.into(be, x, x, kernels.SiLU)
	return d.convOut.apply(be, x)
}
