package models

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
	"latentbeam/stages/catalog"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/t5"
	"latentbeam/stages/wan"
	"latentbeam/stages/weights/checkpoint"
	"latentbeam/stages/weights/safetensors"
)

// packed returns a safetensors file with 8-bit matrices and their scales: one scale per matrix for fp8, one per row for I8. Other
// tensors are float32. name returns the name of a tensor in the file.
func packed(t *testing.T, shapes map[string][]int, dtype, scale string, name func(string) string) []byte {
	t.Helper()
	tensors := map[string]safetensors.Tensor{}
	for _, own := range slices.Sorted(maps.Keys(shapes)) {
		shape := shapes[own]
		module, matrix := strings.CutSuffix(name(own), ".weight")
		if !matrix || len(shape) != 2 {
			tensors[name(own)] = nntest.Tensor(nntest.Weight(own, shape...), shape...)
			continue
		}
		data, seed := make([]byte, shape[0]*shape[1]), crc32.ChecksumIEEE([]byte(own))
		for i := range data {
			data[i] = byte(seed>>8) & 0xb7 // this mask excludes the NaN of fp8
			seed = seed*1664525 + 1013904223
		}
		rows := 1
		if dtype == "I8" {
			rows = shape[0]
		}
		tensors[module+".weight"] = safetensors.Tensor{DType: dtype, Shape: shape, Data: data}
		tensors[module+scale] = nntest.Tensor(slices.Repeat([]float32{0.0031}, rows), rows, 1)
	}
	var out bytes.Buffer
	jobtest.Must(t, safetensors.Write(&out, tensors, nil))
	return out.Bytes()
}

// TestPackedModelIsTheConvertedOne: a model with 8-bit weights, whose denoiser has the names of the original code, and an adapter in fp8
// have the same keys and bytes as after `latentbeam convert`.
func TestPackedModelIsTheConvertedOne(t *testing.T) {
	c := wanCases(t)["unipc"]
	text, err := t5.ParseConfig(c.TextEncoder)
	jobtest.Must(t, err)
	net, err := wan.ParseConfig(c.Transformer)
	jobtest.Must(t, err)
	same := func(name string) string { return name }
	files := map[string][]byte{
		"transformer/diffusion_pytorch_model.safetensors": packed(t, nntest.Shapes(t, net, wan.Load), "F8_E4M3", ".scale_weight", wan.OriginalName),
		"text_encoder/model.safetensors":                  packed(t, nntest.Shapes(t, text, t5.Load), "I8", ".weight_scale", same),
	}
	few := func(n int) []byte { return bytes.Repeat([]byte{0x30, 0x2b, 0xa9, 0x31}, n/4) }
	hidden := net.Heads * net.HeadSize
	var adapter bytes.Buffer
	jobtest.Must(t, safetensors.Write(&adapter, map[string]safetensors.Tensor{
		"blocks.0.attn1.to_q.lora_A.weight": {DType: "F8_E5M2", Shape: []int{2, hidden}, Data: few(2 * hidden)},
		"blocks.0.attn1.to_q.lora_B.weight": {DType: "F8_E5M2", Shape: []int{hidden, 2}, Data: few(2 * hidden)}}, nil))
	files["lora.safetensors"] = adapter.Bytes()

	first, second, out := wanDir(t, c), wanDir(t, c), t.TempDir()
	for name, data := range files {
		jobtest.WriteFile(t, first, name, data)
		converted, err := checkpoint.Convert(filepath.Join(first, name), filepath.Join(t.TempDir(), "x.safetensors"),
			checkpoint.Options{MaxShard: checkpoint.DefaultShard, Names: catalog.Names})
		jobtest.Must(t, err)
		jobtest.WriteFile(t, second, name, nntest.Read(t, converted.Files[len(converted.Files)-1]))
	}
	table := jobtest.WriteTable(t, "prompts.csv", "prompt,seed\na red ball,1\n")
	for i, dir := range []string{first, second} {
		r, err := runYAML(t, fmt.Sprintf("version: 1\nmodel: {path: %q, loras: [{path: %q}]}\ninput: {prompts: %q}\noutput: {path: %q}\n"+
			"defaults: {height: 32, width: 32, num_frames: 5, num_inference_steps: 2}\n", dir, filepath.Join(dir, "lora.safetensors"), table, out), nil)
		if err != nil || r.Totals.Failed != 0 || r.Done != int64(1-i) || r.Skipped != int64(i) {
			t.Fatalf("run %d: got %+v, %v", i, r, err)
		}
	}
}

// TestTokenizers: a model without spiece.model takes its token ids from tokenizer.json, or from the tensor spiece_model of ComfyUI's
// files.
func TestTokenizers(t *testing.T) {
	c := wanCases(t)["unipc"]
	text, err := t5.ParseConfig(c.TextEncoder)
	jobtest.Must(t, err)
	table := jobtest.WriteTable(t, "prompts.csv", "prompt,seed\na red ball 日本,1\n")
	run := func(dir string) (string, error) {
		out := t.TempDir()
		_, err := runYAML(t, fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q, write: [embeddings]}\n"+
			"stages: [encode_text]\ndefaults: {negative_prompt: none}\n", dir, table, out), nil)
		if err != nil {
			return "", err
		}
		row := jobtest.ReadRows[schemas.EmbeddingRow](t, out, "embeddings")[0]
		return fmt.Sprint(row.TextLength, row.TextEmbeddingBytes), nil
	}
	dir, unpacked := wanDir(t, c), func(name string) []byte {
		z, err := gzip.NewReader(bytes.NewReader(nntest.Read(t, "../../../stages/t5/sentencepiece/testdata/"+name)))
		jobtest.Must(t, err)
		data, err := io.ReadAll(z)
		jobtest.Must(t, err)
		return data
	}
	pieces := unpacked("umt5-identity.model.gz")
	jobtest.WriteFile(t, dir, "tokenizer/spiece.model", pieces)
	want, err := run(dir)
	jobtest.Must(t, err)
	jobtest.Must(t, os.Remove(filepath.Join(dir, "tokenizer/spiece.model")))
	_, err = run(dir)
	nntest.WantError(t, "none", err, "T5 needs its tokenizer, a spiece.model or a tokenizer.json, there or in tokenizer/")
	jobtest.WriteFile(t, dir, "tokenizer/tokenizer.json", unpacked("umt5-identity.json.gz"))
	if got, err := run(dir); err != nil || got != want {
		t.Errorf("with tokenizer.json, the embeddings differ, or error %v", err)
	}
	jobtest.Must(t, os.Remove(filepath.Join(dir, "tokenizer/tokenizer.json")))
	tensors := map[string]safetensors.Tensor{"spiece_model": {DType: "U8", Shape: []int{len(pieces)}, Data: pieces}}
	for name, shape := range nntest.Shapes(t, text, t5.Load) {
		tensors[name] = nntest.Tensor(nntest.Weight(name, shape...), shape...)
	}
	var file bytes.Buffer
	jobtest.Must(t, safetensors.Write(&file, tensors, nil))
	jobtest.WriteFile(t, dir, "text_encoder/model.safetensors", file.Bytes())
	if got, err := run(dir); err != nil || got != want {
		t.Errorf("with the tensor spiece_model, the embeddings differ, or error %v", err)
	}
}

// TestReplacedComponent: if a job replaces the denoiser of a model, everything else comes from the model: stages, scheduler and negative
// prompt. The same denoiser gives the same keys from a directory, from another whole model, and from a file without config.json.
func TestReplacedComponent(t *testing.T) {
	dir := wanDir(t, wanCases(t)["unipc"])
	other := t.TempDir()
	file := filepath.Join(dir, "transformer/diffusion_pytorch_model.safetensors")
	jobtest.WriteFile(t, other, "other.safetensors", nntest.Read(t, file))
	jobtest.WriteFile(t, other, "whole/transformer/diffusion_pytorch_model.safetensors", nntest.Read(t, file))
	table, out := jobtest.WriteTable(t, "prompts.csv", "prompt,seed\na red ball,1\n"), t.TempDir()
	for i, model := range []string{"path: %q", "path: %q, transformer: DIR/transformer", "path: %q, transformer: OTHER/other.safetensors",
		"path: %q, transformer: OTHER/whole", "path: %q, vae: DIR/vae, text_encoder: DIR/text_encoder"} {
		model = strings.NewReplacer("DIR", dir, "OTHER", other).Replace(fmt.Sprintf(model, dir))
		r, err := runYAML(t, fmt.Sprintf("version: 1\nmodel: {%s}\ninput: {prompts: %q}\noutput: {path: %q}\n"+
			"defaults: {height: 32, width: 32, num_frames: 5, num_inference_steps: 2}\n", model, table, out), nil)
		if err != nil || r.Totals.Failed != 0 || r.Done != int64(max(0, 1-i)) {
			t.Errorf("%s: got %d rows done, %v", model, r.Done, err)
		}
	}
	_, err := runYAML(t, fmt.Sprintf("version: 1\nmodel: {path: %q, transformer: %q}\ninput: {prompts: %q}\noutput: {path: %q}\n",
		dir, filepath.Join(other, "none"), table, out), nil)
	nntest.WantError(t, "none", err, "transformer is")
}
