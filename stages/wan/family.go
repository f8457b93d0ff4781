package wan

import (
	"encoding/json"
	"fmt"

	"latentbeam/stages/weights"
)

// family recognises the denoisers of Wan by their tensors.
func family() weights.Family {
	return weights.Family{
		Component: "transformer",
		Layouts:   []weights.Layout{originalLayout},
		Guess:     guess,
		Load: weights.Loader(ParseConfig, Load, func(c Config) string {
			does := "text"
			if c.extraChannels() > 0 {
				does = "image"
			}
			return fmt.Sprintf("Wan %s to video: %d layers, width %d, %d heads, %d latent channels",
				does, c.Layers, c.Hidden(), c.Heads, c.OutChannels)
		}),
	}
}

// publishedHead is the width of an attention head in every published model. It cannot be derived from the tensors.
const publishedHead = 128

// guess makes a config.json from the shapes.
func guess(s weights.Shapes) ([]byte, error) {
	const patch = "patch_embedding.weight" // (C, c, pt, ph, pw)
	if !s.Has("condition_embedder.time_proj.weight") || !s.Has(patch) || !s.Has("blocks.0.attn1.norm_q.weight") {
		return nil, nil
	}
	width, head := s.Dim(patch, 0), s.Dim("proj_out.weight", 0)
	if width < publishedHead || width%publishedHead != 0 {
		return nil, fmt.Errorf("this is Wan of width %d, whose number of attention heads is not known (the published ones have a "+
			"width of %d): write a config.json", width, publishedHead)
	}
	c := map[string]any{
		"_class_name": className, "num_attention_heads": width / publishedHead, "attention_head_dim": publishedHead,
		"patch_size":   []int{s.Dim(patch, 2), s.Dim(patch, 3), s.Dim(patch, 4)},
		"in_channels":  s.Dim(patch, 1),
		"out_channels": head / max(1, s.Dim(patch, 2)*s.Dim(patch, 3)*s.Dim(patch, 4)),
		"text_dim":     s.Dim("condition_embedder.text_embedder.linear_1.weight", 1),
		"freq_dim":     s.Dim("condition_embedder.time_embedder.linear_1.weight", 1),
		"ffn_dim":      s.Dim("blocks.0.ffn.net.0.proj.weight", 0),
		"num_layers":   s.Count("blocks.%d.scale_shift_table"),
	}
	if s.Has("blocks.0.attn2.add_k_proj.weight") {
		c["added_kv_proj_dim"] = width
		c["image_dim"] = s.Dim("condition_embedder.image_embedder.norm1.weight", 0)
	}
	if positions := "condition_embedder.image_embedder.pos_embed"; s.Has(positions) {
		c["pos_embed_seq_len"] = s.Dim(positions, 1)
	}
	return json.Marshal(c)
}
