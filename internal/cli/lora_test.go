package cli

import (
	"bytes"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/weights/safetensors"
)

// loraFile is an adapter of rank 1 for one layer of the built-in denoiser.
func loraFile(t *testing.T, layer string, out, in int) string {
	t.Helper()
	tensor := func(shape ...int) safetensors.Tensor {
		var data []byte
		for i := range shape[0] * shape[1] {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(math.Sin(float64(i)))))
		}
		return safetensors.Tensor{DType: "F32", Shape: shape, Data: data}
	}
	var file bytes.Buffer
	err := safetensors.Write(&file, map[string]safetensors.Tensor{"transformer." + layer + ".lora_A.weight": tensor(1, in),
		"transformer." + layer + ".lora_B.weight": tensor(out, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.String()
}

// TestLoras: a job with adapters makes other videos under other names, one with an empty list those of the model, and
// what is wrong with the list is said with its line.
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
		t.Errorf("an empty list gives %v, want %v", none, plain)
	}
	one := videos("one", "{path: tiny, loras: [{path: good.safetensors}]}")
	if half := videos("half", "{path: tiny, loras: [{path: good.safetensors, scale: 0.5}]}"); slices.Equal(one, plain) ||
		slices.Equal(half, one) {
		t.Errorf("an adapter gives %v, at half the scale %v, without it %v", one, half, plain)
	}
	for list, want := range map[string]string{
		"{path: bad.safetensors}":                 `unmatched   "transformer.blocks.99.attn.proj": the model has no such layer`,
		"{path: none.safetensors}":                "none.safetensors: no such file or directory",
		"{path: org/none}":                        "run `latentbeam pull org/none` first",
		"{path: good.safetensors, expert: high}":  "the model has one denoiser: leave expert out",
		"{path: good.safetensors, expert: small}": "expert",
		"{path: good.safetensors, scale: much}":   "model.loras[0].scale must be a number",
		"{scale: 1}":                              "an entry of loras has no path",
	} {
		s.write("lora.yaml", strings.Replace(small, "model: tiny", "model: {path: tiny, loras: ["+list+"]}", 1))
		s.says(s.run(2, "run", "lora.yaml", "--set", "output.path=wrong"), "lora.yaml:2:", want)
	}
	s.write("lora.yaml", strings.Replace(small, "model: tiny", "model: {path: tiny, vae: x}", 1))
	s.says(s.run(2, "run", "lora.yaml"), "lora.yaml:2:", "model has path and components")
}
