package kl

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weight"
)

// decoder is "decoder" with "post_quant_conv" in front, where the autoencoder has one.
type decoder struct {
	postQuant *nn.Conv     // post_quant_conv (c, c, 1, 1); nil: none
	convIn    nn.Conv      // conv_in (C_last, c, 3, 3)
	mid       mid          // mid_block
	up        []upBlock    // up_blocks.N, from the widest
	normOut   nn.GroupNorm // conv_norm_out
	convOut   nn.Conv      // conv_out (3, C_0, 3, 3)
}

// upBlock is a row of resnets and, but for the last block, twice the size.
type upBlock struct {
	resnets  []resnet    // resnets.N, one more than layers_per_block
	attns    []attention // attentions.N, behind each of them; none of most blocks
	upsample *nn.Conv    // upsamplers.0.conv
}

func loadDecoder(w *weight.Weights, cfg *Config) decoder {
	postQuant := loadQuant(w, "post_quant_conv", cfg.LatentChannels, cfg.UsePostQuantConv)
	w = w.Sub("decoder")
	channels, groups := cfg.BlockOutChannels, cfg.NormNumGroups
	last := len(channels) - 1
	d := decoder{
		postQuant: postQuant,
		convIn:    nn.LoadConv(w.Sub("conv_in"), cfg.LatentChannels, channels[last], 3),
		mid:       loadMid(w.Sub("mid_block"), channels[last], groups, cfg.MidAttention),
		normOut:   nn.LoadGroupNorm(w.Sub("conv_norm_out"), channels[0], groups, groupNormEps),
		convOut:   nn.LoadConv(w.Sub("conv_out"), channels[0], cfg.OutChannels, 3),
	}
	in := channels[last]
	for i := range channels {
		out := channels[last-i]
		block := w.Subf("up_blocks.%d", i)
		var u upBlock
		for j := range cfg.LayersPerBlock + 1 {
			u.resnets = append(u.resnets, loadResnet(block.Subf("resnets.%d", j), in, out, groups))
			in = out
			if attends(cfg.UpBlockTypes, i) {
				u.attns = append(u.attns, loadAttention(block.Subf("attentions.%d", j), out, groups))
			}
		}
		if i < last {
			conv := nn.LoadConv(block.Sub("upsamplers.0.conv"), out, out, 3)
			u.upsample = &conv
		}
		d.up = append(d.up, u)
	}
	return d
}

// forward returns the pixels (N, H, W, 3) of latents z (N, h, w, c).
func (d decoder) forward(be kernels.Backend, z kernels.Tensor) kernels.Tensor {
	f := 1 << (len(d.up) - 1)
	pixels := be.Alloc(z.DType, z.Dim(0), f*z.Dim(1), f*z.Dim(2), d.convOut.W.Dim(0)) // (N, H, W, 3)
	defer be.Scope()()
	if d.postQuant != nil {
		z = d.postQuant.Forward(be, z) // (N, h, w, c)
	}
	x := d.mid.forward(be, d.convIn.Forward(be, z)) // (N, h, w, C_last)
	for _, u := range d.up {
		x = u.forward(be, x) // (N, 2h, 2w, C) and so on
	}
	d.normOut.Into(be, x, x, kernels.SiLU)
	d.convOut.Into(be, pixels, x, kernels.Tensor{})
	return pixels
}

// forward returns the block's output for x (N, H, W, Cin): (N, 2H, 2W, Cout), or (N, H, W, Cout) in the
// last block. Only the output outlives the call: at full size these tensors are the memory of a decode.
func (u upBlock) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	c := u.resnets[0].conv2.W.Dim(0)
	factor := 1
	if u.upsample != nil {
		factor = 2
	}
	y := be.Alloc(x.DType, x.Dim(0), factor*x.Dim(1), factor*x.Dim(2), c) // (N, H', W', Cout)
	defer be.Scope()()
	last := len(u.resnets) - 1
	for i, r := range u.resnets[:last] {
		x = r.forward(be, x) // (N, H, W, Cout)
		addAttention(be, u.attns, i, x)
	}
	if u.upsample == nil {
		u.resnets[last].into(be, y, x)
		addAttention(be, u.attns, last, y)
		return y
	}
	x = u.resnets[last].forward(be, x)
	addAttention(be, u.attns, last, x)
	u.upsample.UpsampleInto(be, y, x)
	return y
}
