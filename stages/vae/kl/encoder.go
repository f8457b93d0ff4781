package kl

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// encoder is "encoder" before "quant_conv", if the autoencoder has one.
type encoder struct {
	convIn  nn.Conv      // conv_in (C_0, 3, 3, 3)
	down    []coderBlock // down_blocks.N
	mid     mid          // mid_block
	normOut nn.GroupNorm // conv_norm_out
	convOut nn.Conv      // conv_out (2c, C_last, 3, 3)
	quant   *nn.Conv     // quant_conv (2c, 2c, 1, 1); nil: none
}

func loadEncoder(w *weights.Weights, cfg *Config) encoder {
	moments := 2 * cfg.LatentChannels
	quant := loadQuant(w, "quant_conv", moments, cfg.UseQuantConv)
	w = w.Sub("encoder")
	channels, groups := cfg.BlockOutChannels, cfg.NormNumGroups
	last := len(channels) - 1
	e := encoder{
		convIn:  nn.LoadConv(w.Sub("conv_in"), cfg.InChannels, channels[0], 3),
		mid:     loadMid(w.Sub("mid_block"), channels[last], groups, cfg.MidAttention),
		normOut: nn.LoadGroupNorm(w.Sub("conv_norm_out"), channels[last], groups, groupNormEps),
		convOut: nn.LoadConv(w.Sub("conv_out"), channels[last], moments, 3),
		quant:   quant,
	}
	in := channels[0]
	for i, out := range channels {
		block := w.Subf("down_blocks.%d", i)
		d := loadCoderBlock(block, in, out, cfg.LayersPerBlock, groups, attends(cfg.DownBlockTypes, i))
		if i < last {
			d.halve = nn.LoadConv(block.Sub("downsamplers.0.conv"), out, out, 3).DownsampleInto
		}
		e.down = append(e.down, d)
		in = out
	}
	return e
}

// forward returns the moments (N, h, w, 2c) of pixels x (N, H, W, 3): mean, then log variance.
func (e encoder) forward(be kernels.Backend, x kernels.Tensor) kernels.Tensor {
	x = e.convIn.Forward(be, x) // (N, H, W, C_0)
	for _, d := range e.down {
		x = d.forward(be, x) // (N, H/2, W/2, C) and so on
	}
	x = e.mid.forward(be, x) // (N, h, w, C_last)
	e.normOut.Into(be, x, x, kernels.SiLU)
	x = e.convOut.Forward(be, x) // (N, h, w, 2c)
	if e.quant != nil {
		x = e.quant.Forward(be, x) // (N, h, w, 2c)
	}
	return x
}
