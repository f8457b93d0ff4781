package catalog

import (
	"fmt"
	"testing"

	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/t5"
	"latentbeam/stages/weights/safetensors"
)

// TestOriginalNames: names of the original code become those of diffusers' own converters, with and without the prefix
// of ComfyUI's files. Checkpoints of a layout that is known here keep theirs.
func TestOriginalNames(t *testing.T) {
	cases := map[string]map[string]string{}
	for component, data := range nntest.Golden(t, "../../testdata/golden/wan-names.json") {
		var names map[string]string
		nntest.Decode(t, data, &names)
		cases[component] = names
	}
	text := map[string]string{"token_embedding.weight": "shared.weight", "norm.weight": "encoder.final_layer_norm.weight"}
	for i := range 2 {
		for from, to := range map[string]string{
			"norm1": "layer.0.layer_norm", "attn.q": "layer.0.SelfAttention.q", "attn.k": "layer.0.SelfAttention.k",
			"attn.v": "layer.0.SelfAttention.v", "attn.o": "layer.0.SelfAttention.o",
			"pos_embedding.embedding": "layer.0.SelfAttention.relative_attention_bias", "norm2": "layer.1.layer_norm",
			"ffn.gate.0": "layer.1.DenseReluDense.wi_0", "ffn.fc1": "layer.1.DenseReluDense.wi_1",
			"ffn.fc2": "layer.1.DenseReluDense.wo",
		} {
			text[fmt.Sprintf("blocks.%d.%s.weight", i, from)] = fmt.Sprintf("encoder.block.%d.%s.weight", i, to)
		}
	}
	cases["text_encoder"] = text
	const small = `{"model_type": "umt5", "vocab_size": 9, "d_model": 8, "d_kv": 4, "num_heads": 2, "d_ff": 8, "num_layers": 2}`
	wanted := map[string]bool{}
	for _, info := range requested(t, t5.Family(), small) {
		wanted[info.Name] = true
	}
	for _, to := range text {
		if delete(wanted, to); len(wanted) == 0 {
			break
		}
	}
	if len(wanted) > 0 {
		t.Errorf("no name becomes %v", wanted)
	}
	for component, names := range cases {
		for _, prefix := range []string{"", "model.diffusion_model."} {
			if prefix != "" && component != "transformer" {
				continue
			}
			var theirs, ours []safetensors.TensorInfo
			for from, to := range names {
				theirs, ours = append(theirs, safetensors.TensorInfo{Name: prefix + from}), append(ours, safetensors.TensorInfo{Name: to})
			}
			got := Names(theirs)
			for from, to := range names {
				if got[prefix+from] != to {
					t.Errorf("%s: %s becomes %q, want %s", component, prefix+from, got[prefix+from], to)
				}
				if back := OtherNames(component, to); component == "transformer" && back[0] != from {
					t.Errorf("%s: %s goes back to %q, want %s", component, to, back, from)
				}
			}
			if len(names) < 20 || Names(ours) != nil {
				t.Errorf("%s: %d names, and our own become %v", component, len(names), Names(ours))
			}
		}
	}
}
