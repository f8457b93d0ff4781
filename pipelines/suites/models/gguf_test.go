package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/stages/catalog"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/t5"
	"latentbeam/stages/wan"
	"latentbeam/stages/weights/checkpoint"
	"latentbeam/stages/weights/gguf/gguftest"
)

// llamaNames replaces the names of a T5 encoder's tensors by those of llama.cpp.
var llamaNames = strings.NewReplacer("shared.weight", "token_embd.weight", "encoder.final_layer_norm", "enc.output_norm",
	"encoder.block.", "enc.blk.", "layer.0.SelfAttention.relative_attention_bias", "attn_rel_b", "layer.0.SelfAttention.", "attn_",
	"layer.0.layer_norm", "attn_norm", "layer.1.layer_norm", "ffn_norm", "layer.1.DenseReluDense.wi_0", "ffn_gate",
	"layer.1.DenseReluDense.wi_1", "ffn_up", "layer.1.DenseReluDense.wo", "ffn_down")

// ggufOf returns a GGUF file of random tensors with these shapes. Its matrices have the type `of`.
func ggufOf(architecture, of string, shapes map[string][]int, name func(string) string) []byte {
	var tensors []gguftest.Tensor
	for _, own := range slices.Sorted(maps.Keys(shapes)) {
		tensors = append(tensors, gguftest.Random(name(own), of, 0.06, shapes[own]...))
	}
	return gguftest.Write(map[string]any{"general.architecture": architecture}, tensors)
}

// withNumbers returns a config.json with some numbers replaced.
func withNumbers(t *testing.T, config []byte, numbers map[string]int) []byte {
	t.Helper()
	all := map[string]any{}
	jobtest.Must(t, json.Unmarshal(config, &all))
	for name, n := range numbers {
		all[name] = n
	}
	out, err := json.Marshal(all)
	jobtest.Must(t, err)
	return out
}

// TestGGUFIsTheConvertedModel: a model with a denoiser and a text encoder in GGUF has the same keys and bytes as after `latentbeam
// convert`, for every type of tensor, also if its weights are divided among workers or streamed.
func TestGGUFIsTheConvertedModel(t *testing.T) {
	c := wanCases(t)["unipc"]
	c.TextEncoder = withNumbers(t, c.TextEncoder, map[string]int{"d_model": 256, "d_ff": 256})
	c.Transformer = withNumbers(t, c.Transformer, map[string]int{"attention_head_dim": 128, "text_dim": 256, "ffn_dim": 512})
	text, err := t5.ParseConfig(c.TextEncoder)
	jobtest.Must(t, err)
	net, err := wan.ParseConfig(c.Transformer)
	jobtest.Must(t, err)
	model := func() string { // always the same name, because tables contain it
		dir := filepath.Join(t.TempDir(), "model")
		jobtest.Must(t, os.Rename(wanDir(t, c), dir))
		return dir
	}
	theirs, ours, out, table := model(), model(), t.TempDir(), wanRows(t, c)
	jobtest.Must(t, os.Remove(filepath.Join(theirs, "transformer/diffusion_pytorch_model.safetensors")))
	jobtest.Must(t, os.Remove(filepath.Join(theirs, "text_encoder/model.safetensors")))
	runs := 0
	for nth, of := range gguftest.Types() {
		const transformer, encoder = "transformer/wan.gguf", "text_encoder/umt5.gguf"
		jobtest.WriteFile(t, theirs, transformer, ggufOf("wan", of, nntest.Shapes(t, net, wan.Load), wan.OriginalName))
		jobtest.WriteFile(t, theirs, encoder, ggufOf("t5encoder", of, nntest.Shapes(t, text, t5.Load), llamaNames.Replace))
		for from, to := range map[string]string{transformer: "transformer/diffusion_pytorch_model.safetensors", encoder: "text_encoder/model.safetensors"} {
			jobtest.Must(t, os.Remove(filepath.Join(ours, to)))
			converted, err := checkpoint.Convert(filepath.Join(theirs, from), filepath.Join(ours, to),
				checkpoint.Options{MaxShard: checkpoint.DefaultShard, Names: catalog.Names})
			jobtest.Must(t, err)
			if !converted.Renamed {
				t.Fatalf("%s: the conversion did not rename the tensors", from)
			}
		}
		run := func(model, variant string) jobtest.Output {
			t.Helper()
			runs++
			dir := filepath.Join(out, fmt.Sprint(runs))
			r, err := runYAML(t, fmt.Sprintf("version: 1\nmodel: %s\ninput: {prompts: %q}\noutput: {path: %q, write: [latents, embeddings]}\n"+
				"defaults: {num_inference_steps: 2}\nstages: [encode_text, denoise]\n", model, table, dir), strings.Fields(variant))
			if err != nil || r.Done != 4 || r.Totals.Failed > 0 {
				t.Fatalf("%s, %s: got %+v, %v", of, variant, r.Totals, err)
			}
			read := jobtest.MustRead(t, dir)
			delete(read.Files, "README.md") // it contains the path of the model
			delete(read.Files, "croissant.json")
			return read
		}
		want := run(fmt.Sprintf("%q", ours), "")
		variants := []string{"", "resources.workers=2 stages.denoise.tp_size=2 stages.encode_text.tp_size=2",
			"resources.workers=2 stages.denoise.pp_size=2 resources.batch_size=1"}
		for i, variant := range variants {
			if i > 0 && testing.Short() && nth%3 != i {
				continue
			}
			if wrong := want.Diff(run(fmt.Sprintf("%q", theirs), variant)); wrong != nil {
				t.Errorf("%s, %q: the output differs from that of the converted model:\n%s", of, variant, strings.Join(wrong, "\n"))
			}
		}
		if of == "Q4_K" { // the components are files outside of the model's directory
			named := fmt.Sprintf("{path: %q, transformer: %q, text_encoder: %q}", ours, filepath.Join(theirs, transformer), filepath.Join(theirs, encoder))
			if wrong := want.Diff(run(named, "")); wrong != nil {
				t.Errorf("a job that names the files of the components gives another output:\n%s", strings.Join(wrong, "\n"))
			}
		}
	}
}

// TestGGUFAlone: a GGUF file, or a folder with one, can be a model of one component. A GGUF that cannot be used gives an error that
// names its architecture.
func TestGGUFAlone(t *testing.T) {
	c := wanCases(t)["unipc"]
	text, err := t5.ParseConfig(c.TextEncoder)
	jobtest.Must(t, err)
	dir := t.TempDir()
	jobtest.WriteFile(t, dir, "t5/model.gguf", ggufOf("t5encoder", "Q8_0", nntest.Shapes(t, text, t5.Load), llamaNames.Replace))
	jobtest.WriteFile(t, dir, "flux/flux.gguf", ggufOf("flux", "F16", map[string][]int{"double_blocks.0.img_attn.proj.weight": {32, 32}}, strings.Clone))
	jobtest.WriteFile(t, dir, "two/a.gguf", nil)
	jobtest.WriteFile(t, dir, "two/b.gguf", nil)
	jobtest.WriteFile(t, dir, "parts/m-00001-of-00002.gguf", nil)
	jobtest.WriteFile(t, dir, "none/x.gguf", ggufOf("", "F16", map[string][]int{"x": {32, 32}}, strings.Clone))
	jobtest.WriteFile(t, dir, "named/x.safetensors", ggufOf("wan", "F16", map[string][]int{"x": {32, 32}}, strings.Clone))
	open := func(model string) error {
		_, err := runYAML(t, fmt.Sprintf("version: 1\nmodel: %s\ninput: {prompts: %q}\noutput: {path: %q, write: [embeddings]}\nstages: [encode_text]\n",
			model, wanRows(t, c), filepath.Join(t.TempDir(), "out")), nil)
		return err
	}
	for model, want := range map[string]string{
		"t5/model.gguf":                       "there or in tokenizer/",
		"t5":                                  "there or in tokenizer/",
		"flux/flux.gguf":                      `this GGUF is of architecture "flux", which is no model known here`,
		"flux":                                `this GGUF is of architecture "flux"`,
		"none/x.gguf":                         "does not say which model it is: name it as a component",
		"{text_encoder: two}":                 "several checkpoints, name one (it holds a.gguf, b.gguf)",
		"{text_encoder: parts}":               "llama-gguf-split --merge",
		"{text_encoder: flux}":                `this GGUF is of architecture "flux"`,
		"{text_encoder: named/x.safetensors}": "this is a GGUF file: it is known by its name, which ends in .gguf",
	} {
		model = strings.NewReplacer(": ", ": "+dir+"/").Replace(model)
		if !strings.HasPrefix(model, "{") {
			model = filepath.Join(dir, model)
		}
		if err := open(model); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", model, err, want)
		}
	}
}
