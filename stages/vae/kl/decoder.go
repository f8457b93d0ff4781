package kl

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// decoder is "decoder" after "post_quant_conv", if the autoencoder has one.
type decoder struct {
	postQuant *nn.Conv     // post_quant_conv (c, c, 1, 1); nil: none
	convIn    nn.Conv      // conv_in (C_last, c, 3, 3)
	mid       mid          // mid_block
	up        []coderBlock // up_blocks.N, widest first; one resnet more than layers_per_block
	normOut   nn.GroupNorm // conv_norm_out
	convOut   nn.Conv      // conv_out (3, C_0, 3, 3)
}

func loadDecoder(w *weights.Weights, cfg *Config) decoder {
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
		u := loadCoderBlock(block, in, out, cfg.LayersPerBlock+1, groups, attends(cfg.UpBlockTypes, i))
		if i < last {
			u.double = nn.LoadConv(block.Sub("upsamplers.0.conv"), out, out, 3).UpsampleInto
		}
		d.up = append(d.up, u)
		in = out
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
