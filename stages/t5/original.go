package t5

import (
	"latentbeam/stages/weights"
)

// originalUMT5 is the layout in which Wan's code has the encoder of UMT5 (models_t5_umt5-xxl-enc-bf16.pth).
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
