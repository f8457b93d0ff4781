package wan

import (
	"regexp"
	"strings"
)

// original are the names of diffusers and those of the code that Wan was published with. The first that begins a name, or
// follows the number of a block, counts.
var original = [][2]string{
	{"condition_embedder.time_embedder.linear_1", "time_embedding.0"},
	{"condition_embedder.time_embedder.linear_2", "time_embedding.2"},
	{"condition_embedder.time_proj", "time_projection.1"},
	{"condition_embedder.text_embedder.linear_1", "text_embedding.0"},
	{"condition_embedder.text_embedder.linear_2", "text_embedding.2"},
	{"condition_embedder.image_embedder.norm1", "img_emb.proj.0"},
	{"condition_embedder.image_embedder.ff.net.0.proj", "img_emb.proj.1"},
	{"condition_embedder.image_embedder.ff.net.2", "img_emb.proj.3"},
	{"condition_embedder.image_embedder.norm2", "img_emb.proj.4"},
	{"scale_shift_table", "head.modulation"},
	{"proj_out", "head.head"},
}

// originalInside are those behind the number of a block.
var originalInside = [][2]string{
	{"attn1.to_out.0", "self_attn.o"}, {"attn1.to_", "self_attn."}, {"attn1.", "self_attn."},
	{"attn2.to_out.0", "cross_attn.o"}, {"attn2.to_", "cross_attn."}, {"attn2.add_k_proj", "cross_attn.k_img"},
	{"attn2.add_v_proj", "cross_attn.v_img"}, {"attn2.norm_added_k", "cross_attn.norm_k_img"}, {"attn2.", "cross_attn."},
	{"ffn.net.0.proj", "ffn.0"}, {"ffn.net.2", "ffn.2"}, {"norm2", "norm3"}, {"scale_shift_table", "modulation"},
}

// blockName splits the name of a block's tensor.
var blockName = regexp.MustCompile(`^(blocks\.\d+\.)(.+)$`)

// OriginalName returns what the code that Wan was published with calls a tensor of diffusers; names that both have, and
// others, come back as they are.
func OriginalName(tensor string) string {
	table, before := original, ""
	if m := blockName.FindStringSubmatch(tensor); m != nil {
		table, before, tensor = originalInside, m[1], m[2]
	}
	for _, pair := range table {
		if rest, ok := strings.CutPrefix(tensor, pair[0]); ok {
			return before + pair[1] + rest
		}
	}
	return before + tensor
}
