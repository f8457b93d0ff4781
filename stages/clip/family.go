package clip

import (
	"encoding/json"
	"fmt"
	"math"

	"latentbeam/stages/weights"
)

// Family recognises vision encoders of CLIP by their tensors. Published encoders have a config.json.
func Family() weights.Family {
	return weights.Family{
		Component: component,
		Layouts:   []weights.Layout{bare},
		Guess:     guess,
		Load: weights.Loader(ParseConfig, Load, func(c Config) string {
			return fmt.Sprintf("CLIP vision encoder: %d layers, width %d, %d heads, images of %d pixels in patches of %d",
				c.Layers, c.Hidden, c.Heads, c.ImageSize, c.PatchSize)
		}),
	}
}

// bare is the layout that transformers 5 saves: without the prefix that the encoder has inside a whole CLIP.
var bare = weights.Layout{Mark: "embeddings.class_embedding",
	Rules: weights.Rules(`(embeddings|encoder|pre_layrnorm|post_layernorm)\.(.*)`, "vision_model.$1.$2")}

// The published encoder of Wan 2.1. The number of heads cannot be derived from the tensors.
const publishedWidth, publishedHeads = 1280, 16

// guess makes a config.json from the shapes.
func guess(s weights.Shapes) ([]byte, error) {
	const in = "vision_model.embeddings."
	patch := in + "patch_embedding.weight" // (C, 3, p, p)
	if !s.Has(in+"class_embedding") || !s.Has(patch) {
		return nil, nil
	}
	if width := s.Dim(patch, 0); width != publishedWidth {
		return nil, fmt.Errorf("this is a vision encoder of width %d, whose number of attention heads is not known: write a config.json", width)
	}
	side := int(math.Sqrt(float64(s.Dim(in+"position_embedding.weight", 0) - 1)))
	return json.Marshal(map[string]any{"model_type": modelType, "hidden_size": publishedWidth, "num_attention_heads": publishedHeads,
		"patch_size": s.Dim(patch, 2), "image_size": side * s.Dim(patch, 2), "hidden_act": "gelu",
		"intermediate_size": s.Dim("vision_model.encoder.layers.0.mlp.fc1.weight", 0),
		"num_hidden_layers": s.Count("vision_model.encoder.layers.%d.layer_norm1.weight")})
}
