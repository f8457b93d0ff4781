package temporal

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// Model is VAE_Temporal of Open-Sora 1.2 (docs/report_03.md there): an autoencoder over time only, based on MAGVIT-v2
// (arXiv:2310.05737). Its input are the latents of a 2D autoencoder. Convolutions are causal; GroupNorm computes its statistics
// over all frames of a group.
type Model struct {
	*Config
	encoder   encoder
	decoder   decoder
	quant     nn.CausalConv // quant_conv (2e, 2l, 1, 1, 1)
	postQuant nn.CausalConv // post_quant_conv (l, e, 1, 1, 1)
}

// normEps is the epsilon of all GroupNorms here, PyTorch's default.
const normEps = 1e-5

// Load loads an autoencoder by its published tensor names. Tensors that do not fit are recorded in w.
func Load(w *weights.Weights, c *Config) Model {
	return Model{
		Config:    c,
		encoder:   loadEncoder(w.Sub("encoder"), c),
		decoder:   loadDecoder(w.Sub("decoder"), c),
		quant:     nn.LoadCausalConv(w.Sub("quant_conv.conv"), 2*c.LatentEmbedDim, 2*c.EmbedDim, 1),
		postQuant: nn.LoadCausalConv(w.Sub("post_quant_conv.conv"), c.EmbedDim, c.LatentEmbedDim, 1),
	}
}

// Encode returns the moments (1, T/4, h, w, 2e) of x (1, T, h, w, c): mean, then log variance. T must be a multiple of Factor:
// the caller adds zero frames at the front of a clip.
func (t Model) Encode(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	return t.quant.Forward(be, t.encoder.forward(be, x))
}

// Decode decodes latents z (1, T, h, w, e) to 4 T frames and returns the last n, (1, n, h, w, c).
func (t Model) Decode(be kernels.Backend, z kernels.Tensor, n int) kernels.Tensor {
	x := t.decoder.forward(be, t.postQuant.Forward(be, z)) // (1, 4T, h, w, c)
	return x.Narrow(1, x.Dim(1)-n, n)                      // (1, n, h, w, c)
}

// block is x + conv2(silu(norm2(conv1(silu(norm1(x)))))), without biases. If the number of channels changes, x passes a 1x1x1
// convolution.
type block struct {
	norm1, norm2 nn.GroupNorm
	conv1, conv2 nn.CausalConv  // (C, C, 3, 3, 3)
	conv3        *nn.CausalConv // (Cout, Cin, 1, 1, 1); nil if the number of channels stays
}

func loadBlock(w *weights.Weights, in, out, groups int) block {
	b := block{
		norm1: nn.LoadGroupNorm(w.Sub("norm1"), in, groups, normEps),
		conv1: nn.LoadCausalConvNoBias(w.Sub("conv1.conv"), in, out, 3),
		norm2: nn.LoadGroupNorm(w.Sub("norm2"), out, groups, normEps),
		conv2: nn.LoadCausalConvNoBias(w.Sub("conv2.conv"), out, out, 3),
	}
	if in != out {
		conv := nn.LoadCausalConvNoBias(w.Sub("conv3.conv"), in, out, 1)
		b.conv3 = &conv
	}
	return b
}

// forward returns the block's output (1, T, h, w, Cout) for x (1, T, h, w, Cin). If the number of channels stays, it modifies x
// in place and returns it. At full size these tensors are most of the model's memory.
func (b block) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	y := x
	if b.conv3 != nil {
		y = be.Alloc(x.DType, x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3), b.conv3.W.Dim(0)) // (1, T, h, w, Cout)
		b.conv3.Into(be, y, x, kernels.Tensor{})
	}
	defer be.Scope()()
	h := b.conv1.Forward(be, b.norm1.VideoForward(be, x, kernels.SiLU)) // (1, T, h, w, Cout)
	b.norm2.VideoInto(be, h, h, kernels.SiLU)
	b.conv2.Into(be, y, h, y)
	return y
}

// encoder is "temporal_vae.encoder".
type encoder struct {
	convIn nn.CausalConv    // conv_in (C, c, 3, 3, 3), no bias
	levels [][]block        // block_res_blocks.I.J
	down   []*nn.CausalConv // conv_blocks.I (C, C, 3, 3, 3); nil if the level does not halve the frames
	last   []block          // res_blocks.J
	norm   nn.GroupNorm     // norm1
	conv   nn.CausalConv    // conv2 (2l, C, 1, 1, 1)
}

func loadEncoder(w *weights.Weights, c *Config) encoder {
	e := encoder{convIn: nn.LoadCausalConvNoBias(w.Sub("conv_in.conv"), c.InOutChannels, c.Filters, 3)}
	in := c.Filters
	for i, m := range c.ChannelMultipliers {
		e.levels = append(e.levels, loadBlocks(w.Subf("block_res_blocks.%d", i), in, m*c.Filters, c))
		in = m * c.Filters
		if i == len(c.TemporalDownsample) {
			break
		}
		var down *nn.CausalConv
		if c.TemporalDownsample[i] {
			conv := nn.LoadCausalConv(w.Subf("conv_blocks.%d.conv", i), in, in, 3)
			down = &conv
		}
		e.down = append(e.down, down)
	}
	e.last = loadBlocks(w.Sub("res_blocks"), in, in, c)
	e.norm = nn.LoadGroupNorm(w.Sub("norm1"), in, c.NumGroups, normEps)
	e.conv = nn.LoadCausalConv(w.Sub("conv2.conv"), in, 2*c.LatentEmbedDim, 1)
	return e
}

func loadBlocks(w *weights.Weights, in, out int, c *Config) []block {
	var blocks []block
	for j := range c.NumResBlocks {
		blocks = append(blocks, loadBlock(w.Subf("%d", j), in, out, c.NumGroups))
		in = out
	}
	return blocks
}

// forward returns features (1, T/4, h, w, 2l) of x (1, T, h, w, c).
func (e encoder) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	x = e.convIn.Forward(be, x) // (1, T, h, w, C)
	for i, level := range e.levels {
		x = forwardBlocks(be, level, x) // (1, T, h, w, C)
		if i < len(e.down) && e.down[i] != nil {
			x = e.down[i].Halve(be, x, 1, false) // (1, T/2, h, w, C)
		}
	}
	x = forwardBlocks(be, e.last, x) // (1, T/4, h, w, C)
	e.norm.VideoInto(be, x, x, kernels.SiLU)
	return e.conv.Forward(be, x)
}

func forwardBlocks(be kernels.Backend, blocks []block, x kernels.Tensor) kernels.Tensor {
	for _, b := range blocks {
		x = b.forward(be, x)
	}
	return x
}

// decoder is "temporal_vae.decoder". Its levels run from the last and widest to the first.
type decoder struct {
	conv1  nn.CausalConv    // conv1 (C_last, l, 3, 3, 3)
	first  []block          // res_blocks.J
	levels [][]block        // block_res_blocks.I.J, by I
	up     []*nn.CausalConv // conv_blocks.I (2C, C, 3, 3, 3), after level I+1; nil if the frames stay
	norm   nn.GroupNorm     // norm1
	conv   nn.CausalConv    // conv_out (c, C, 3, 3, 3)
}

func loadDecoder(w *weights.Weights, c *Config) decoder {
	levels := len(c.ChannelMultipliers)
	in := c.Filters * c.ChannelMultipliers[levels-1]
	d := decoder{
		conv1:  nn.LoadCausalConv(w.Sub("conv1.conv"), c.LatentEmbedDim, in, 3),
		first:  loadBlocks(w.Sub("res_blocks"), in, in, c),
		levels: make([][]block, levels),
		up:     make([]*nn.CausalConv, levels-1),
	}
	for i := levels - 1; i >= 0; i-- {
		out := c.Filters * c.ChannelMultipliers[i]
		d.levels[i] = loadBlocks(w.Subf("block_res_blocks.%d", i), in, out, c)
		in = out
		if i > 0 && c.TemporalDownsample[i-1] {
			conv := nn.LoadCausalConv(w.Subf("conv_blocks.%d.conv", i-1), in, 2*in, 3)
			d.up[i-1] = &conv
		}
	}
	d.norm = nn.LoadGroupNorm(w.Sub("norm1"), in, c.NumGroups, normEps)
	d.conv = nn.LoadCausalConv(w.Sub("conv_out.conv"), in, c.InOutChannels, 3)
	return d
}

// forward returns frames (1, 4T, h, w, c) of z (1, T, h, w, l).
func (d decoder) forward(be kernels.Backend, z kernels.Tensor) kernels.Tensor {
	x := forwardBlocks(be, d.first, d.conv1.Forward(be, z)) // (1, T, h, w, C_last)
	for i := len(d.levels) - 1; i >= 0; i-- {
		x = forwardBlocks(be, d.levels[i], x) // (1, T, h, w, C)
		if i > 0 && d.up[i-1] != nil {
			x = channelsToTime(be, d.up[i-1].Forward(be, x)) // (1, 2T, h, w, C)
		}
	}
	d.norm.VideoInto(be, x, x, kernels.SiLU)
	return d.conv.Forward(be, x)
}

// channelsToTime makes two frames of each frame: x (N, T, h, w, 2C) -> (N, 2T, h, w, C). Channel 2c+s of frame t becomes
// channel c of frame 2t+s.
func channelsToTime(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	n, t, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3), x.Dim(4)/2
	y := be.Alloc(x.DType, n, t, 2, h, w, c) // (N, T, 2, h, w, C)
	be.Copy(y, x.Reshape(n, t, h, w, c, 2).Permute(0, 1, 5, 2, 3, 4))
	return y.Reshape(n, 2*t, h, w, c)
}
