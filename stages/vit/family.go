package vit

import (
	"encoding/json"
	"fmt"
	"math"

	"latentbeam/stages/weights"
)

// Component is the name of DINO among the components of models.
const Component = "dino"

// Family recognises networks of DINO by their tensors, with the names of transformers (ViTModel) or DINO's own code.
func Family() weights.Family {
	return weights.Family{
		Component: Component,
		Layouts:   []weights.Layout{own},
		Guess:     guess,
		Load: weights.Loader(ParseConfig, Load, func(c Config) string {
			return fmt.Sprintf("DINO vision transformer: %d layers, width %d, %d heads, patches of %d pixels", c.Layers, c.Hidden, c.Heads, c.PatchSize)
		}),
	}
}

// own is the layout of DINO's code.
var own = weights.Layout{Mark: "cls_token", Strip: "module.", Rules: weights.Rules(
	`cls_token`, "embeddings.cls_token",
	`pos_embed`, "embeddings.position_embeddings",
	`patch_embed\.proj\.(weight|bias)`, "embeddings.patch_embeddings.projection.$1",
	`blocks\.(\d+)\.norm1\.(.*)`, "encoder.layer.$1.layernorm_before.$2",
	`blocks\.(\d+)\.norm2\.(.*)`, "encoder.layer.$1.layernorm_after.$2",
	`blocks\.(\d+)\.attn\.qkv\.(.*)`, "encoder.layer.$1.attention.qkv.$2",
	`blocks\.(\d+)\.attn\.proj\.(.*)`, "encoder.layer.$1.attention.output.dense.$2",
	`blocks\.(\d+)\.mlp\.fc1\.(.*)`, "encoder.layer.$1.intermediate.dense.$2",
	`blocks\.(\d+)\.mlp\.fc2\.(.*)`, "encoder.layer.$1.output.dense.$2",
	`norm\.(.*)`, "layernorm.$1",
)}

// guess makes a config.json from the shapes. Heads have width 64 in all published networks.
func guess(s weights.Shapes) ([]byte, error) {
	const in, headWidth = "embeddings.", 64
	if names := own.Names(s); names != nil {
		renamed := weights.Shapes{}
		for name, shape := range s {
			renamed[names[name]] = shape
		}
		s = renamed
	}
	patch, positions := in+"patch_embeddings.projection.weight", in+"position_embeddings"
	if !s.Has(in+"cls_token") || !s.Has(patch) || !s.Has(positions) {
		return nil, nil
	}
	width := s.Dim(patch, 0)
	if width%headWidth != 0 {
		return nil, fmt.Errorf("this is a vision transformer of width %d, whose number of attention heads is not known: write a config.json", width)
	}
	side := int(math.Round(math.Sqrt(float64(s.Dim(positions, 1) - 1))))
	return json.Marshal(map[string]any{"model_type": modelType, "hidden_size": width, "num_attention_heads": width / headWidth,
		"patch_size": s.Dim(patch, 2), "image_size": side * s.Dim(patch, 2), "hidden_act": "gelu", "layer_norm_eps": eps,
		"intermediate_size": s.Dim("encoder.layer.0.intermediate.dense.weight", 0),
		"num_hidden_layers": s.Count("encoder.layer.%d.layernorm_before.weight")})
}
