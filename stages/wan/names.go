package wan

import (
	"regexp"
	"strings"

	"latentbeam/stages/weights"
)

// original pairs the names of diffusers with the names of Wan's original code, by whole segments. ComfyUI's files have the
// original names with a prefix.
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
	{"condition_embedder.image_embedder.pos_embed", "img_emb.emb_pos"},
	{"scale_shift_table", "head.modulation"},
	{"proj_out", "head.head"},
}

// originalInside pairs the names after the number of a block. The two layouts exchange the numbers of norm 2 and norm 3;
// diffusers' norm 3 has no tensors.
var originalInside = [][2]string{
	{"attn1.to_q", "self_attn.q"}, {"attn1.to_k", "self_attn.k"}, {"attn1.to_v", "self_attn.v"},
	{"attn1.to_out.0", "self_attn.o"}, {"attn1.norm_q", "self_attn.norm_q"}, {"attn1.norm_k", "self_attn.norm_k"},
	{"attn2.to_q", "cross_attn.q"}, {"attn2.to_k", "cross_attn.k"}, {"attn2.to_v", "cross_attn.v"},
	{"attn2.to_out.0", "cross_attn.o"}, {"attn2.norm_q", "cross_attn.norm_q"}, {"attn2.norm_k", "cross_attn.norm_k"},
	{"attn2.add_k_proj", "cross_attn.k_img"}, {"attn2.add_v_proj", "cross_attn.v_img"},
	{"attn2.norm_added_k", "cross_attn.norm_k_img"},
	{"ffn.net.0.proj", "ffn.0"}, {"ffn.net.2", "ffn.2"}, {"norm2", "norm3"}, {"scale_shift_table", "modulation"},
}

// originalLayout is the layout of the original code. OriginalName is the inverse.
var originalLayout = weights.Layout{Mark: "time_projection.1.weight", Strip: "model.diffusion_model.", Rules: originalRules()}

// originalRules inverts the tables.
func originalRules() []weights.Rule {
	var pairs []string
	add := func(before, replaced string, table [][2]string) {
		for _, pair := range table {
			pairs = append(pairs, before+regexp.QuoteMeta(pair[1])+`(?P<rest>\..*)?`, replaced+pair[0]+"${rest}")
		}
	}
	add("", "", original)
	add(`blocks\.(\d+)\.`, "blocks.$1.", originalInside)
	return weights.Rules(pairs...)
}

// blockName splits the name of a block's tensor.
var blockName = regexp.MustCompile(`^(blocks\.\d+\.)(.+)$`)

// OriginalName returns the name in Wan's original code for a tensor of diffusers. Names that both have, and unknown names, are
// returned unchanged.
func OriginalName(tensor string) string {
	table, before := original, ""
	if m := blockName.FindStringSubmatch(tensor); m != nil {
		table, before, tensor = originalInside, m[1], m[2]
	}
	for _, pair := range table {
		if rest, ok := strings.CutPrefix(tensor, pair[0]); ok && (rest == "" || rest[0] == '.') {
			return before + pair[1] + rest
		}
	}
	return before + tensor
}
