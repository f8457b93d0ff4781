package lora

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages/weights/safetensors"
)

// file writes an adapter of F32 tensors of zeros.
func file(t *testing.T, dir, name string, shapes map[string][]int, metadata map[string]string) string {
	t.Helper()
	tensors := map[string]safetensors.Tensor{}
	for name, shape := range shapes {
		tensors[name] = safetensors.Tensor{DType: "F32", Shape: shape, Data: make([]byte, 4*kernels.Elements(shape))}
	}
	var out bytes.Buffer
	if err := safetensors.Write(&out, tensors, metadata); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOddShapes: tensors of any shape are listed as what does not fit, with a model of any shapes.
func TestOddShapes(t *testing.T) {
	model := map[string][]int{"a.weight": {1, 1}, "b.weight": {1}, "c.weight": {}, "d.weight": {0, 3}, "a.bias": {1}, "e": {2, 3}}
	for _, layer := range []string{"a", "b", "c", "d", "e", "none"} {
		for _, down := range [][]int{{}, {1}, {1, 1}, {0, 1}, {1, 0}, {1, 3}, {2, 3, 1}} {
			for _, up := range [][]int{{}, {1}, {1, 1}, {1, 0}, {0, 1}, {2, 1}} {
				path := file(t, t.TempDir(), "x.safetensors", map[string][]int{layer + ".lora_A.weight": down, layer + ".lora_B.weight": up,
					layer + ".diff": down, layer + ".diff_b": up, layer + ".lora_B.bias": up}, nil)
				a, err := Open(path)
				if err != nil {
					t.Fatal(err)
				}
				added, err := a.Fit(model, nil, 1)
				for name, delta := range added {
					shape := model[name]
					dst := make([]float32, kernels.Elements(shape[1:]))
					for row := range shape[0] {
						delta.Add(dst, row, 0) // must not panic
					}
				}
				if err == nil && layer != "a" && layer != "d" {
					t.Errorf("%s with %v and %v fits", layer, down, up)
				}
			}
		}
	}
}

// TestRefusedAdapters: what cannot be used is named.
func TestRefusedAdapters(t *testing.T) {
	good := map[string][]int{"a.lora_A.weight": {1, 1}, "a.lora_B.weight": {1, 1}}
	for _, c := range []struct {
		shapes           map[string][]int
		metadata, config string
		want             string
	}{
		{shapes: good, config: `{"use_dora": true}`, want: "adapters with magnitudes (DoRA) cannot be used"},
		{shapes: good, config: `{"peft_type": "LOHA"}`, want: "peft_type LOHA: only LORA"},
		{shapes: good, config: `{"fan_in_fan_out": true}`, want: "transposed"},
		{shapes: good, config: `{`, want: "adapter_config.json: unexpected end"},
		{shapes: good, metadata: `{`, want: "lora_adapter_metadata: unexpected end"},
		{shapes: good, metadata: `{"transformer.use_dora": true}`, want: "DoRA"},
		{shapes: map[string][]int{"a.alpha": {2}}, want: "want one finite number"},
		{shapes: map[string][]int{"a.lora_A.weight": {1, 1}, "a.lora_down.weight": {1, 1}}, want: "mean the same"},
	} {
		dir := t.TempDir()
		metadata := map[string]string{}
		if c.metadata != "" {
			metadata[metadataKey] = c.metadata
		}
		path := file(t, dir, "one.safetensors", c.shapes, metadata)
		if c.config != "" {
			if err := os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte(c.config), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%s: %v, want %s", c.config, c.metadata, err, c.want)
		}
	}
	dir := t.TempDir()
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "holds no safetensors file") {
		t.Errorf("an empty directory: %v", err)
	}
	file(t, dir, "one.safetensors", good, nil)
	if _, err := Open(dir); err != nil {
		t.Error(err)
	}
	file(t, dir, "two.safetensors", good, nil)
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "name one: one.safetensors, two.safetensors") {
		t.Errorf("two files: %v", err)
	}
	file(t, dir, "adapter_model.safetensors", good, nil)
	if _, err := Open(dir); err != nil {
		t.Error(err)
	}
}
