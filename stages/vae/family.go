package vae

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"latentbeam/stages/vae/osplan/wf"
	"latentbeam/stages/vae/wan"
	"latentbeam/stages/weights"
)

// Family recognises the autoencoders by their tensors. Published autoencoders have a config.json.
func Family() weights.Family {
	return weights.Family{
		Component: "vae",
		Layouts:   []weights.Layout{wan.Original, wan.Original22},
		Guess:     guess,
		Load:      weights.Loader(ParseConfig, Load, func(c Config) string { return c.title }),
	}
}

// guess finds the architecture from the names of the first layers. Open-Sora's have one published size; for a 2D autoencoder
// the shapes give the channels.
func guess(s weights.Shapes) ([]byte, error) {
	const maxChannels = 1 << 14 // far more than any autoencoder has
	switch {
	case s.Has("spatial_vae.module.encoder.conv_in.weight"):
		c := map[string]any{"model_type": "VideoAutoencoderPipeline"}
		if n := s.Dim("shift", 1); n > 0 { // the file contains the values
			c["shift"], c["scale"] = slices.Repeat([]int{0}, min(n, maxChannels)), slices.Repeat([]int{1}, min(n, maxChannels))
		}
		return json.Marshal(c)
	case s.Has("decoder.conv_out.conv.weight") && s.Has("encoder.mid.attn_1.q.conv.weight"):
		return nil, errors.New("the autoencoder is a CausalVAEModel of Open-Sora-Plan; its tensors do not describe all of its layers: " +
			"put the config.json that it was published with beside it")
	case s.Has("decoder.connect_l2.0.conv1.conv.weight"):
		return wf.Guess(s)
	case s.Has("encoder.conv_in.conv.weight") && s.Has("encoder.down.0.block.0.norm1.weight"):
		return json.Marshal(map[string]any{"model_type": "OpenSoraVAE_V1_3_Pipline"})
	case s.Has("encoder.conv_in.weight") && s.Has("encoder.norm_out.gamma"):
		return wan.Guess(s)
	case !s.Has("encoder.conv_in.weight") || !s.Has("encoder.down_blocks.0.resnets.0.conv1.weight"):
		return nil, nil
	}
	var channels []int
	for i := range s.Count("encoder.down_blocks.%d.resnets.0.conv1.weight") {
		channels = append(channels, s.Dim(fmt.Sprintf("encoder.down_blocks.%d.resnets.0.conv1.weight", i), 0))
	}
	return json.Marshal(map[string]any{
		"_class_name": "AutoencoderKL", "block_out_channels": channels,
		"layers_per_block": s.Count("encoder.down_blocks.0.resnets.%d.conv1.weight"),
		"in_channels":      s.Dim("encoder.conv_in.weight", 1), "out_channels": s.Dim("decoder.conv_out.weight", 0),
		"latent_channels": s.Dim("decoder.conv_in.weight", 1),
		"use_quant_conv":  s.Has("quant_conv.weight"), "use_post_quant_conv": s.Has("post_quant_conv.weight"),
	})
}
