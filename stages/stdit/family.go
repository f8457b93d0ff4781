package stdit

import (
	"encoding/json"
	"fmt"
	"math"

	"latentbeam/stages/weights"
)

// family recognises the denoisers of Open-Sora 1.0 to 1.3 by their tensors. The files of 1.0 were published without a
// config.json.
func family() weights.Family {
	return weights.Family{
		Component: "transformer",
		Guess:     guess,
		Load: weights.Loader(ParseConfig, Load, func(c Config) string {
			name := map[Version]string{OpenSora10: "STDiT", OpenSora11: "STDiT2"}[c.Version]
			if name == "" {
				name = "STDiT3"
			}
			return fmt.Sprintf("%s of Open-Sora %s: depth %d, width %d, %d heads, %d latent channels",
				name, c.Version, c.Depth, c.HiddenSize, c.NumHeads, c.InChannels)
		}),
	}
}

// publishedHead is the width of an attention head in every published model.
const publishedHead = 72

// guess finds the version from tensors that only one version has, and the sizes from shapes.
func guess(s weights.Shapes) ([]byte, error) {
	const patch = "x_embedder.proj.weight" // (C, c, pt, ph, pw)
	blocks, kind := "blocks", "STDiT"
	switch {
	case s.Has("spatial_blocks.0.scale_shift_table"):
		blocks, kind = "spatial_blocks", "STDiT3"
	case s.Has("blocks.0.scale_shift_table_temporal"):
		kind = "STDiT2"
	case !s.Has("blocks.0.attn_temp.qkv.weight"):
		return nil, nil
	}
	width := s.Dim(patch, 0)
	c := map[string]any{
		"model_type": kind, "hidden_size": width, "in_channels": s.Dim(patch, 1),
		"patch_size":       []int{s.Dim(patch, 2), s.Dim(patch, 3), s.Dim(patch, 4)},
		"depth":            s.Count(blocks + ".%d.scale_shift_table"),
		"caption_channels": s.Dim("y_embedder.y_embedding", 1),
		"model_max_length": s.Dim("y_embedder.y_embedding", 0),
	}
	if size := s.Dim(patch, 1) * s.Dim(patch, 2) * s.Dim(patch, 3) * s.Dim(patch, 4); size > 0 {
		c["pred_sigma"] = s.Dim("final_layer.linear.weight", 0) == 2*size
	}
	head := publishedHead
	if kind != "STDiT" {
		norm := blocks + ".0.attn.q_norm.weight"
		if c["qk_norm"] = s.Has(norm); s.Has(norm) {
			head = s.Dim(norm, 0)
		}
	} else {
		addPositions(c, s)
	}
	if width < 1 || head < 1 || width%head != 0 {
		return nil, fmt.Errorf("this is %s of width %d, whose number of attention heads is not known (the published ones have a "+
			"width of %d): write a config.json", kind, width, publishedHead)
	}
	c["num_heads"] = width / head
	c["mlp_ratio"] = float64(s.Dim(blocks+".0.mlp.fc1.weight", 0)) / float64(width)
	if s.Has("x_embedder_cond.proj.weight") {
		c["kernel_size"], c["use_spatial_rope"] = []int{8, 8, -1}, true // as published; no tensor contains it
	}
	return json.Marshal(c)
}

// addPositions finds the scales of the positions of 1.0 from the tables in its file: tables for 256 pixels were made with
// space_scale 0.5, tables for 512 with 1; 16 frames with time_scale 1, 64 with 2/3.
func addPositions(c map[string]any, s weights.Shapes) {
	side := int(math.Round(math.Sqrt(float64(s.Dim("pos_embed", 1))))) // patches; (1, S, C)
	frames := s.Dim("pos_embed_temporal", 1)                           // (1, T, C)
	if side < 1 || frames < 1 {
		return
	}
	patch := s["x_embedder.proj.weight"]
	if len(patch) == 5 {
		c["input_size"] = []int{frames * patch[2], side * patch[3], side * patch[4]} // latent
	}
	if side == 16 {
		c["space_scale"] = 0.5
	}
	if frames == 64 {
		c["time_scale"] = 2.0 / 3
	}
}
