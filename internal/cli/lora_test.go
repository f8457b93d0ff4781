package cli

import (
	"bytes"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/stages/weights/safetensors"
)

// loraFile is an adapter of rank 1 for one layer of the built-in denoiser.
func loraFile(t *testing.T, layer string, out, in int, others ...string) string {
	t.Helper()
	tensor := func(shape ...int) safetensors.Tensor {
		var data []byte
		for i := range shape[0] * shape[1] {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(math.Sin(float64(i)))))
		}
		return safetensors.Tensor{DType: "F32", Shape: shape, Data: data}
	}
	var file bytes.Buffer
	tensors := map[string]safetensors.Tensor{}
	for _, layer := range append(others, layer) {
		tensors["transformer."+layer+".lora_A.weight"], tensors["transformer."+layer+".lora_B.weight"] = tensor(1, in), tensor(out, 1)
	}
	err := safetensors.Write(&file, tensors, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.String()
}

// TestLoras: a job with adapters makes other videos with other names; with an empty list it makes the videos of the model. Errors
// in the list name its line.
func TestLoras(t *testing.T) {
	s := newShell(t, "prompts.csv", threePrompts, "job.yaml", small, "good.safetensors", loraFile(t, "blocks.0.attn.proj", 128, 128),
		"bad.safetensors", loraFile(t, "blocks.99.attn.proj", 128, 128))
	videos := func(out, model string) (names []string) {
		t.Helper()
		s.write("lora.yaml", strings.Replace(small, "model: tiny", "model: "+model, 1))
		s.run(0, "run", "lora.yaml", "--set", "output.path="+out)
		found, err := filepath.Glob(filepath.Join(s.dir, out, "videos", "*", "*.mp4"))
		if err != nil || len(found) == 0 {
			t.Fatal(found, err)
		}
		for _, f := range found {
			names = append(names, filepath.Base(f))
		}
		return names
	}
	plain := videos("plain", "tiny")
	if none := videos("none", "{path: tiny, loras: []}"); !slices.Equal(none, plain) {
		t.Errorf("an empty list gives the videos %v, want %v", none, plain)
	}
	one := videos("one", "{path: tiny, loras: [{path: good.safetensors}]}")
	if half := videos("half", "{path: tiny, loras: [{path: good.safetensors, scale: 0.5}]}"); slices.Equal(one, plain) ||
		slices.Equal(half, one) {
		t.Errorf("with an adapter, at half its scale and without it, the videos are %v, %v and %v; want all different", one, half, plain)
	}
	s.says(s.run(0, "inspect", "good.safetensors"), "adapter    LoRA: 1 layer, rank 1, alpha 1")
	s.write("lora.yaml", strings.Replace(small, "model: tiny", "model: {path: tiny, loras: [{path: more.safetensors, scale: 0.5, unmatched: skip}]}", 1))
	s.write("more.safetensors", loraFile(t, "blocks.0.attn.proj", 128, 128, "text_model.layers.0"))
	const note = "LoRA more.safetensors: 1 layer, rank 1, alpha 1; left out: 1 layer that the model does not have; scale 0.5"
	s.says(s.run(0, "run", "lora.yaml", "--set", "output.path=more"), note)
	s.says(s.run(0, "run", "lora.yaml", "--set", "output.path=more", "--dry-run"), "note: "+note)
	for out, want := range map[string]string{"more": `[{"file":"more.safetensors","scale":0.5,"digest":"`, "plain": ""} {
		rows, err := parquet.ReadFile[struct {
			Loras string `parquet:"loras,optional"`
		}](filepath.Join(s.dir, out, "tables", "videos", "00000.parquet"))
		if err != nil || len(rows) == 0 || !strings.HasPrefix(rows[0].Loras, want) || want == "" && rows[0].Loras != "" {
			t.Errorf("%s: the table has the adapters %+v, %v", out, rows, err)
		}
	}
	for list, want := range map[string]string{
		"{path: bad.safetensors, unmatched: skip}": "changes nothing (0 layers; left out: 1 layer that the model does not have): none of its",
		"{path: good.safetensors, unmatched: all}": "unmatched",
		"{path: bad.safetensors}":                  `unmatched   "transformer.blocks.99.attn.proj": the model has no such layer`,
		"{path: none.safetensors}":                 "none.safetensors: no such file or directory",
		"{path: org/none}":                         "run `latentbeam pull org/none` first",
		"{path: good.safetensors, expert: high}":   "the model has one denoiser: leave expert out",
		"{path: good.safetensors, expert: small}":  "expert",
		"{path: good.safetensors, scale: much}":    "model.loras[0].scale must be a number",
		"{scale: 1}":                               "an entry of loras has no path",
	} {
		s.write("lora.yaml", strings.Replace(small, "model: tiny", "model: {path: tiny, loras: ["+list+"]}", 1))
		s.says(s.run(2, "run", "lora.yaml", "--set", "output.path=wrong"), "lora.yaml:2:", want)
	}
	s.write("lora.yaml", strings.Replace(small, "model: tiny", "model: {path: tiny, vae: x}", 1))
	s.says(s.run(2, "run", "lora.yaml"), "lora.yaml:2:", "model has path tiny and components")
}
