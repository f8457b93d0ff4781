package t5

import (
	"encoding/json"
	"fmt"

	"latentbeam/stages/weights"
)

// Family recognises encoders of T5, mT5 and UMT5 by their tensors. Published encoders have a config.json.
func Family() weights.Family {
	return weights.Family{
		Component: "text_encoder",
		Layouts:   append([]weights.Layout{originalUMT5}, llamaLayouts...),
		Guess:     guess,
		Load: weights.Loader(ParseConfig, Load, func(c Config) string {
			return fmt.Sprintf("%s encoder: %d layers, width %d, %d heads, vocabulary %d",
				c.variant().name, c.NumLayers, c.DModel, c.NumHeads, c.VocabSize)
		}),
	}
}

// multilingual is a vocabulary size that separates mT5 from T5 (32128 ids). Both have one relative_attention_bias.
const multilingual = 200000

// guess derives everything but the constants of the architecture from the shapes.
func guess(s weights.Shapes) ([]byte, error) {
	const first = "encoder.block.0."
	q := first + "layer.0.SelfAttention.q.weight" // (H d_kv, d_model)
	if !s.Has(q) {
		return nil, nil
	}
	c := map[string]any{
		"model_type": modelT5, "feed_forward_proj": "gated-gelu", "d_model": s.Dim(q, 1),
		"d_ff":       s.Dim(first+"layer.1.DenseReluDense.wi_0.weight", 0),
		"num_layers": s.Count("encoder.block.%d.layer.0.SelfAttention.q.weight"),
		"vocab_size": max(s.Dim("shared.weight", 0), s.Dim("encoder.embed_tokens.weight", 0)),
	}
	if s.Has(first + "layer.1.DenseReluDense.wi.weight") {
		c["feed_forward_proj"] = "relu" // T5 v1.0
		c["d_ff"] = s.Dim(first+"layer.1.DenseReluDense.wi.weight", 0)
	}
	switch {
	case s.Has("encoder.block.1." + biasName):
		c["model_type"] = modelUMT5
	case c["vocab_size"].(int) >= multilingual:
		c["model_type"] = modelMT5
	}
	heads := s.Dim(first+biasName, 1) // (buckets, H)
	if heads < 1 || s.Dim(q, 0)%heads != 0 {
		return nil, fmt.Errorf("this is a T5 encoder whose number of heads is not known: block 0 has no relative_attention_bias")
	}
	c["num_heads"], c["d_kv"] = heads, s.Dim(q, 0)/heads
	return json.Marshal(c)
}
