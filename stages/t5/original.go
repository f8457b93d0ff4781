package t5

import (
	"latentbeam/stages/weights"
)

// originalUMT5 is the layout of UMT5's encoder in Wan's code (models_t5_umt5-xxl-enc-bf16.pth).
var originalUMT5 = weights.Layout{Mark: "blocks.0.pos_embedding.embedding.weight", Rules: weights.Rules(
	`token_embedding\.weight`, sharedName,
	`norm\.weight`, "encoder.final_layer_norm.weight",
	`blocks\.(\d+)\.norm1\.weight`, "encoder.block.$1.layer.0.layer_norm.weight",
	`blocks\.(\d+)\.attn\.([qkvo])\.weight`, "encoder.block.$1.layer.0.SelfAttention.$2.weight",
	`blocks\.(\d+)\.pos_embedding\.embedding\.weight`, "encoder.block.$1."+biasName,
	`blocks\.(\d+)\.norm2\.weight`, "encoder.block.$1.layer.1.layer_norm.weight",
	`blocks\.(\d+)\.ffn\.gate\.0\.weight`, "encoder.block.$1.layer.1.DenseReluDense.wi_0.weight",
	`blocks\.(\d+)\.ffn\.fc1\.weight`, "encoder.block.$1.layer.1.DenseReluDense.wi_1.weight",
	`blocks\.(\d+)\.ffn\.fc2\.weight`, "encoder.block.$1.layer.1.DenseReluDense.wo.weight",
)}

// llamaLayouts are the layouts of llama.cpp's GGUF files: for encoders with a gate in their feed-forward layers, and without.
var llamaLayouts = []weights.Layout{
	{Mark: "enc.blk.0.ffn_gate.weight", Rules: llamaRules("wi_1")},
	{Mark: "enc.blk.0.ffn_up.weight", Rules: llamaRules("wi")},
}

// llamaRules returns the rules. up is the name that ffn_up has here.
func llamaRules(up string) []weights.Rule {
	const block, become = `enc\.blk\.(\d+)\.`, "encoder.block.$1."
	return weights.Rules(
		`token_embd\.weight`, sharedName,
		`enc\.output_norm\.weight`, "encoder.final_layer_norm.weight",
		block+`attn_norm\.weight`, become+"layer.0.layer_norm.weight",
		block+`attn_([qkvo])\.weight`, become+"layer.0.SelfAttention.$2.weight",
		block+`attn_rel_b\.weight`, become+biasName,
		block+`ffn_norm\.weight`, become+"layer.1.layer_norm.weight",
		block+`ffn_gate\.weight`, become+"layer.1.DenseReluDense.wi_0.weight",
		block+`ffn_up\.weight`, become+"layer.1.DenseReluDense."+up+".weight",
		block+`ffn_down\.weight`, become+"layer.1.DenseReluDense.wo.weight",
		`dec\.(.*)`, "decoder.$1",
		`output\.weight`, "lm_head.weight",
	)
}
