package osplan

import (
	"encoding/json"
	"errors"
	"fmt"

	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
)

// family recognises the denoisers of Open-Sora-Plan by their tensors.
func family() weights.Family {
	return weights.Family{
		Component: "transformer",
		Guess:     guess,
		Load: weights.Loader(ParseConfig, Load, func(c Config) string {
			version := "1.2"
			if c.Sparse {
				version = "1.3"
			}
			return fmt.Sprintf("Open-Sora-Plan %s text to video: %d layers, width %d, %d heads, %d latent channels",
				version, c.Layers, c.Hidden(), c.Heads, c.InChannels)
		}),
	}
}

// publishedHead is the width of an attention head in both published versions. It cannot be derived from the tensors.
const publishedHead = 96

// guess makes a config.json from the shapes. The versions have the same tensors but different numbers of latent channels.
func guess(s weights.Shapes) ([]byte, error) {
	const patch = "pos_embed.proj.weight" // (C, c, 2, 2)
	if !s.Has(patch) || !s.Has("adaln_single.linear.weight") || !s.Has("transformer_blocks.0.attn2.to_q.weight") ||
		s.Has("temporal_transformer_blocks.0.attn1.to_q.weight") {
		return nil, nil
	}
	width, channels := s.Dim(patch, 0), s.Dim(patch, 1)
	if width < publishedHead || width%publishedHead != 0 || channels != 4 && channels != 8 {
		return nil, fmt.Errorf("this is Open-Sora-Plan of width %d with %d latent channels, whose version or number of attention heads "+
			"is not known (1.2 has 4 channels, 1.3 has 8, a head has %d numbers): write a config.json", width, channels, publishedHead)
	}
	if channels == 4 {
		return nil, errors.New("this is Open-Sora-Plan 1.2, and its tensors do not contain the scale of its positions " +
			"(interpolation_scale_t, _h, _w), which differs between its sizes: give its config.json")
	}
	c := map[string]any{
		"_class_name": class13, "sparse1d": true, "sparse_n": 4, "num_attention_heads": width / publishedHead,
		"attention_head_dim": publishedHead, "in_channels": channels, "out_channels": s.Dim("proj_out.weight", 0) / 4,
		"patch_size": s.Dim(patch, 2), "patch_size_t": 1,
		"num_layers": s.Count("transformer_blocks.%d.scale_shift_table"), "cross_attention_dim": width,
		"caption_channels": s.Dim("caption_projection.linear_1.weight", 1), "attention_bias": true,
		"activation_fn": "gelu-approximate", "norm_elementwise_affine": false, "norm_eps": nn.LayerNormEps,
	}
	return json.Marshal(c)
}
