package wan

import (
	"encoding/json"
	"errors"
	"fmt"

	"latentbeam/stages/nn"
)

// originalLayout is the layout of the code that Wan was published with. ComfyUI's files have it too, behind a prefix. The
// numbers of the norms 2 and 3 are exchanged between the layouts; norm 3 here has no tensors.
// OriginalName goes the other way.
var originalLayout = nn.Layout{Mark: "time_projection.1.weight", Strip: "model.diffusion_model.", Rules: nn.Rules(
	`time_embedding\.0\.(.*)`, "condition_embedder.time_embedder.linear_1.$1",
	`time_embedding\.2\.(.*)`, "condition_embedder.time_embedder.linear_2.$1",
	`time_projection\.1\.(.*)`, "condition_embedder.time_proj.$1",
	`text_embedding\.0\.(.*)`, "condition_embedder.text_embedder.linear_1.$1",
	`text_embedding\.2\.(.*)`, "condition_embedder.text_embedder.linear_2.$1",
	`img_emb\.proj\.0\.(.*)`, "condition_embedder.image_embedder.norm1.$1",
	`img_emb\.proj\.1\.(.*)`, "condition_embedder.image_embedder.ff.net.0.proj.$1",
	`img_emb\.proj\.3\.(.*)`, "condition_embedder.image_embedder.ff.net.2.$1",
	`img_emb\.proj\.4\.(.*)`, "condition_embedder.image_embedder.norm2.$1",
	`head\.modulation`, "scale_shift_table",
	`head\.head\.(.*)`, "proj_out.$1",
	`blocks\.(\d+)\.modulation`, "blocks.$1.scale_shift_table",
	`blocks\.(\d+)\.norm3\.(.*)`, "blocks.$1.norm2.$2",
	`blocks\.(\d+)\.ffn\.0\.(.*)`, "blocks.$1.ffn.net.0.proj.$2",
	`blocks\.(\d+)\.ffn\.2\.(.*)`, "blocks.$1.ffn.net.2.$2",
	`blocks\.(\d+)\.self_attn\.([qkv])\.(.*)`, "blocks.$1.attn1.to_$2.$3",
	`blocks\.(\d+)\.self_attn\.o\.(.*)`, "blocks.$1.attn1.to_out.0.$2",
	`blocks\.(\d+)\.self_attn\.(norm_[qk])\.(.*)`, "blocks.$1.attn1.$2.$3",
	`blocks\.(\d+)\.cross_attn\.([qkv])\.(.*)`, "blocks.$1.attn2.to_$2.$3",
	`blocks\.(\d+)\.cross_attn\.o\.(.*)`, "blocks.$1.attn2.to_out.0.$2",
	`blocks\.(\d+)\.cross_attn\.(norm_[qk])\.(.*)`, "blocks.$1.attn2.$2.$3",
	`blocks\.(\d+)\.cross_attn\.([kv])_img\.(.*)`, "blocks.$1.attn2.add_$2_proj.$3",
	`blocks\.(\d+)\.cross_attn\.norm_k_img\.(.*)`, "blocks.$1.attn2.norm_added_k.$2",
)}

// originalConfig is a config.json of that code.
type originalConfig struct {
	Dim       int     `json:"dim"`
	FFN       int     `json:"ffn_dim"`
	FreqDim   int     `json:"freq_dim"`
	Heads     int     `json:"num_heads"`
	Layers    int     `json:"num_layers"`
	In        int     `json:"in_dim"`
	Out       int     `json:"out_dim"`
	TextLen   int     `json:"text_len"`
	Eps       float64 `json:"eps"`
	ModelType string  `json:"model_type"`
}

// parseOriginal reads a config.json of the original code over c.
func parseOriginal(data []byte, c Config) (Config, error) {
	o := originalConfig{Dim: c.Hidden(), FFN: c.FFN, FreqDim: c.FreqDim, Heads: c.Heads, Layers: c.Layers, In: c.InChannels,
		Out: c.OutChannels, TextLen: textTokens, Eps: c.Eps, ModelType: "t2v"}
	if err := json.Unmarshal(data, &o); err != nil {
		return c, fmt.Errorf("parse config.json of Wan: %w", err)
	}
	switch {
	case o.ModelType != "t2v" && o.ModelType != "ti2v":
		return c, fmt.Errorf("config.json of Wan: model_type is %q, only t2v and ti2v are supported", o.ModelType)
	case o.TextLen != textTokens:
		return c, fmt.Errorf("config.json of Wan: text_len is %d, only %d is supported", o.TextLen, textTokens)
	case o.Heads < 1 || o.Dim < 1 || o.Dim%o.Heads != 0:
		return c, fmt.Errorf("config.json of Wan: dim is %d and num_heads %d: one must be a multiple of the other", o.Dim, o.Heads)
	}
	c.Heads, c.HeadSize, c.FFN, c.FreqDim, c.Layers = o.Heads, o.Dim/o.Heads, o.FFN, o.FreqDim, o.Layers
	c.InChannels, c.OutChannels, c.Eps = o.In, o.Out, o.Eps
	return c, nil
}

// errOriginal tells how to use weights of the original layout.
var errOriginal = errors.New("the tensors have the names of the original code: rewrite them with latentbeam convert IN OUT, " +
	"and give OUT")
