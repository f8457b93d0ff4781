package lora

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/stages/weights/safetensors"
)

// file writes an adapter of F32 tensors of ones.
func file(t *testing.T, dir, name string, shapes map[string][]int, metadata map[string]string) string {
	t.Helper()
	tensors := map[string]safetensors.Tensor{}
	for name, shape := range shapes {
		tensors[name] = safetensors.Tensor{DType: "F32", Shape: shape, Data: bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, kernels.Elements(shape))}
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

// TestOddShapes: tensors of any shape, with a model of any shapes, are listed as misfits.
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
				added, _, err := a.Fit(model, nil, 1, false)
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

// TestRefusedAdapters: the error names what cannot be used.
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
		{shapes: map[string][]int{"a.lora_A.weight": {1, 1}, "a.dora_scale": {1}}, want: "is one of DoRA (LoRA with magnitudes), which cannot"},
		{shapes: map[string][]int{"lycoris_a.lora_magnitude_vector.weight": {1}}, want: "DoRA"},
		{shapes: map[string][]int{"lycoris_a.lokr_w1": {1, 1}, "lycoris_a.lokr_w2_a": {1, 1}}, want: "LoKr (Kronecker products)"},
		{shapes: map[string][]int{"lora_unet_a.hada_w1_a": {1, 1}}, want: "LoHa (Hadamard products)"},
		{shapes: map[string][]int{"a.alpha": {2}}, want: "want one finite number"},
		{shapes: map[string][]int{"a.lora_A.weight": {1, 1}, "a.lora_down.weight": {1, 1}}, want: "have the same meaning"},
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

// TestTrainersPrefixes: the prefixes that programs put before the names of modules are recognised, and _ in place of some or
// all dots.
func TestTrainersPrefixes(t *testing.T) {
	model := map[string][]int{"blocks.0.attn1.to_q.weight": {2, 3}, "blocks.0.scale_shift_table": {1, 6, 2}}
	other := func(tensor string) []string {
		return map[string][]string{"blocks.0.attn1.to_q.weight": {"blocks.0.self_attn.q.weight"}, "blocks.0.scale_shift_table": {"blocks.0.modulation"}}[tensor]
	}
	for _, name := range []string{"blocks.0.attn1.to_q", "transformer.blocks.0.attn1.to_q", "diffusion_model.blocks.0.self_attn.q",
		"pipe.dit.blocks.0.self_attn.q", "dit.blocks.0.self_attn.q", "module.blocks.0.self_attn.q", "base_model.model.module.blocks.0.self_attn.q",
		"lora_unet_blocks_0_self_attn_q", "lora_unet_blocks_0.self_attn.q", "lycoris_blocks_0_self_attn_q", "lora_transformer_blocks_0_attn1_to_q"} {
		path := file(t, t.TempDir(), "x.safetensors", map[string][]int{name + ".lora_down.weight": {1, 3}, name + ".lora_up.weight": {2, 1}}, nil)
		a, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		added, f, err := a.Fit(model, other, 1, false)
		if err != nil || len(added["blocks.0.attn1.to_q.weight"]) != 1 || f.String() != "1 layer, rank 1, alpha 1" {
			t.Errorf("%s: %v, %v, %v", name, added, f, err)
		}
	}
	path := file(t, t.TempDir(), "x.safetensors", map[string][]int{"diffusion_model.blocks.0.diff_m": {1, 6, 2}}, nil)
	a, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	added, f, err := a.Fit(model, other, 0.5, false)
	if err != nil || f.String() != "1 layer" {
		t.Fatal(f, err)
	}
	row := make([]float32, 12)
	added["blocks.0.scale_shift_table"].Add(row, 0, 0)
	if row[0] != 0.5 || row[11] != 0.5 {
		t.Errorf("the modulation gets %v, want 0.5", row)
	}
}

// TestUnmatched: layers that the model does not have are listed in a short error, or are ignored and counted.
func TestUnmatched(t *testing.T) {
	shapes := map[string][]int{"a.lora_A.weight": {2, 3}, "a.lora_B.weight": {3, 2}, "a.alpha": {}, "lora_te_x.lora_down.weight": {1, 1},
		"lora_te_x.lora_up.weight": {1, 1}, "lora_te_x.other": {1}}
	for i := range 30 {
		shapes[fmt.Sprintf("blocks.%d.k_img.diff", i)] = []int{1}
	}
	model := map[string][]int{"a.weight": {3, 3}}
	a, err := Open(file(t, t.TempDir(), "x.safetensors", shapes, nil))
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = a.Fit(model, nil, 1, false)
	if err == nil || strings.Count(err.Error(), "\n") > 9 || !strings.Contains(err.Error(), "32 of its layers do not fit the model (1 do)") ||
		!strings.Contains(err.Error(), "and 25 more") || !strings.Contains(err.Error(), "`unmatched: skip`") {
		t.Errorf("the error is %v", err)
	}
	added, f, err := a.Fit(model, nil, 1, true)
	if want := "1 layer, rank 2, alpha 1; left out: 32 layers that the model does not have"; err != nil || len(added) != 1 || f.String() != want {
		t.Errorf("%v, %q, %v, want %q", added, f, err, want)
	}
	_, _, err = a.Fit(map[string][]int{"b.weight": {3, 3}}, nil, 1, true)
	if err == nil || !strings.Contains(err.Error(), "changes nothing (0 layers; left out: 33 layers that the model does not have): none of its tensors is for this model") {
		t.Errorf("no layer fits: %v", err)
	}
	shapes["a.other"] = []int{1} // of a layer that the model has
	if a, err = Open(file(t, t.TempDir(), "x.safetensors", shapes, nil)); err != nil {
		t.Fatal(err)
	}
	if _, _, err = a.Fit(model, nil, 1, true); err == nil || !strings.Contains(err.Error(), `unknown     "a.other"`) {
		t.Errorf("an unknown tensor of a layer: %v", err)
	}
}

// TestAdapterWithoutEffect: an adapter without effect is an error, unless its scale is 0.
func TestAdapterWithoutEffect(t *testing.T) {
	write := func(alpha, up float32) string {
		one := func(v float32, shape ...int) safetensors.Tensor {
			return safetensors.Tensor{DType: "F32", Shape: shape, Data: kernels.F32.Bytes(slices.Repeat([]float32{v}, kernels.Elements(shape)))}
		}
		tensors := map[string]safetensors.Tensor{}
		if alpha >= 0 {
			tensors = map[string]safetensors.Tensor{"a.lora_A.weight": one(1, 1, 2), "a.lora_B.weight": one(up, 2, 1), "a.alpha": one(alpha)}
		}
		var out bytes.Buffer
		if err := safetensors.Write(&out, tensors, nil); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x.safetensors")
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for want, path := range map[string]string{"(0 layers): none of its tensors is for this model": write(-1, 0), "(1 layer, rank 1, alpha 0): its alpha is 0": write(0, 1),
		"(1 layer, rank 1, alpha 1): all that it adds is zero": write(1, 0), "": write(1, 1)} {
		a, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, scale := range []float64{1, 0} {
			_, _, err := a.Fit(map[string][]int{"a.weight": {2, 2}}, nil, scale, false)
			if said := err != nil && strings.Contains(err.Error(), want); (err != nil) != (want != "" && scale != 0) || err != nil && !said {
				t.Errorf("scale %g: %v, want %q", scale, err, want)
			}
		}
	}
}
