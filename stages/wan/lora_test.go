package wan

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"latentbeam/kernels"
	"latentbeam/kernels/cpu"
	"latentbeam/stages"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// loraGoldens are testdata/golden/wan-lora.json.
type loraGoldens struct {
	Files map[string]struct {
		Tensors map[string]struct {
			Shape []int
			Value float32
		}
		Metadata map[string]string
		Config   json.RawMessage
	}
	Cases map[string]struct {
		Loras []struct {
			File  string
			Scale float64
		}
		Out []float32
	}
}

func readLoras(t *testing.T) (g loraGoldens) {
	t.Helper()
	raw := nntest.Golden(t, "../../testdata/golden/wan-lora.json")
	nntest.Decode(t, raw["files"], &g.Files)
	nntest.Decode(t, raw["cases"], &g.Cases)
	return g
}

// write writes an adapter to a directory of its own and returns it.
func (g loraGoldens) write(t *testing.T, name string, change func(tensors map[string]safetensors.Tensor)) string {
	t.Helper()
	file, dir := g.Files[name], t.TempDir()
	tensors := map[string]safetensors.Tensor{}
	for name, one := range file.Tensors {
		values := []float32{one.Value}
		if one.Shape != nil {
			values = nntest.Hash(name, 0.3, one.Shape...)
		}
		tensors[name] = nntest.Tensor(values, one.Shape...)
	}
	if change != nil {
		change(tensors)
	}
	var out bytes.Buffer
	if err := safetensors.Write(&out, tensors, file.Metadata); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "adapter_model.safetensors"), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if file.Config != nil {
		if err := os.WriteFile(filepath.Join(dir, "adapter_config.json"), file.Config, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// loraModel is the base model of the goldens with adapters.
func loraModel(t *testing.T, loras ...stages.Lora) *stages.Model {
	t.Helper()
	base := goldens(t)["b_2"]
	m, err := stages.EmbeddedModel("test", fstest.MapFS{
		"transformer/config.json":                         &fstest.MapFile{Data: base.Config},
		"transformer/diffusion_pytorch_model.safetensors": &fstest.MapFile{Data: nntest.FileBytes(t, nntest.Shapes(t, base.config(t), Load))},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.OtherNames = func(_, tensor string) []string { return []string{OriginalName(tensor)} }
	if err := m.AddLoras(loras); err != nil {
		t.Fatal(err)
	}
	return m
}

func openLoras(t *testing.T, loras ...stages.Lora) (*weights.Component[Config, Model], error) {
	return weights.OpenComponent(loraModel(t, loras...), "transformer", ParseConfig, Load)
}

// lorasOf writes the adapters of a case.
func (g loraGoldens) lorasOf(t *testing.T, name string) (loras []stages.Lora) {
	for _, l := range g.Cases[name].Loras {
		loras = append(loras, stages.Lora{Path: g.write(t, l.File, nil), Scale: l.Scale, Expert: stages.ExpertBoth})
	}
	return loras
}

// TestLoras runs the network with adapters of all kinds against diffusers and PEFT.
func TestLoras(t *testing.T) {
	g, base := readLoras(t), goldens(t)["b_2"]
	digests := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(g.Cases)) {
		c, err := openLoras(t, g.lorasOf(t, name)...)
		if err != nil {
			t.Fatal(err)
		}
		be := cpu.New(2)
		m, err := c.On(be)
		if err != nil {
			t.Fatal(err)
		}
		diff, largest := nntest.MaxDiff(base.runOn(t, be, m), g.Cases[name].Out)
		t.Logf("%s: largest difference %.2g of %.3g", name, diff, largest)
		if diff > 1e-5*largest {
			t.Errorf("%s differs by %g from the reference", name, diff)
		}
		if old, twice := digests[c.Digest()]; twice {
			t.Errorf("%s and %s have the same digest", old, name)
		}
		digests[c.Digest()] = name
	}
	plain, err := openLoras(t)
	if err != nil {
		t.Fatal(err)
	}
	if name, twice := digests[plain.Digest()]; twice {
		t.Errorf("%s has the digest of the model without adapters", name)
	}
}

// TestLoraDigest: order, scale and expert change the digest, the location of a file does not.
func TestLoraDigest(t *testing.T) {
	g := readLoras(t)
	digest := func(loras ...stages.Lora) string {
		c, err := openLoras(t, loras...)
		if err != nil {
			t.Fatal(err)
		}
		return c.Digest()
	}
	a, again, b := g.write(t, "diffusers", nil), g.write(t, "diffusers", nil), g.write(t, "kohya", nil)
	one := func(path string, scale float64) stages.Lora {
		return stages.Lora{Path: path, Scale: scale, Expert: stages.ExpertBoth}
	}
	if digest(one(a, 1)) != digest(one(again, 1)) {
		t.Error("the digest depends on the place of the file")
	}
	seen := map[string]int{}
	for i, loras := range [][]stages.Lora{{}, {one(a, 1)}, {one(a, 0.5)}, {one(a, 1), one(b, 1)}, {one(b, 1), one(a, 1)},
		{one(a, 1), one(a, 1)}} {
		d := digest(loras...)
		if j, twice := seen[d]; twice {
			t.Errorf("lists %d and %d have the same digest", i, j)
		}
		seen[d] = i
	}
}

// TestLorasSameBytes: weights with adapters have the same bytes whole and streamed block by block, in fp32 and rounded to
// bf16.
func TestLorasSameBytes(t *testing.T) {
	g := readLoras(t)
	loras, be := g.lorasOf(t, "several"), cpu.New(2)
	results := map[kernels.DType][]float32{}
	for _, dt := range []kernels.DType{kernels.F32, kernels.BF16} {
		base := goldens(t)["b_2"]
		base.dtype = dt
		for _, stream := range []bool{false, true} {
			c, err := weights.OpenComponent(loraModel(t, loras...), "transformer", func(data []byte) (Config, error) {
				c, err := ParseConfig(data)
				c.DType = dt
				return c, err
			}, Load)
			if err != nil {
				t.Fatal(err)
			}
			if stream {
				c.Stream(1)
			}
			m, err := c.On(be)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				got := base.runOn(t, be, m)
				if want := results[dt]; want != nil && !slices.Equal(got, want) {
					t.Errorf("%v, streamed %v: other bytes", dt, stream)
				}
				results[dt] = got
			}
		}
	}
	if rms := nntest.RelativeRMS(results[kernels.BF16], results[kernels.F32]); !(rms > 1e-4 && rms < 0.02) {
		t.Errorf("bf16 is %g from fp32", rms)
	}
}

// TestLorasThatDoNotFit: one error lists every layer of an adapter that the model does not have.
func TestLorasThatDoNotFit(t *testing.T) {
	g := readLoras(t)
	path := g.write(t, "diffusers", func(tensors map[string]safetensors.Tensor) {
		tensors["transformer.blocks.7.attn1.to_q.lora_A.weight"] = nntest.Tensor(make([]float32, 84), 1, 84)
		tensors["transformer.blocks.7.attn1.to_q.lora_B.weight"] = nntest.Tensor(make([]float32, 84), 84, 1)
		tensors["transformer.blocks.0.attn1.to_k.lora_A.weight"] = nntest.Tensor(make([]float32, 80), 1, 80)
		tensors["transformer.blocks.0.attn1.to_k.lora_B.weight"] = nntest.Tensor(make([]float32, 84), 84, 1)
		tensors["transformer.blocks.1.attn1.to_k.lora_A.weight"] = nntest.Tensor(make([]float32, 84), 1, 84)
	})
	_, err := openLoras(t, stages.Lora{Path: path, Scale: 1, Expert: stages.ExpertBoth})
	for _, want := range []string{"3 of its layers do not fit the model (9 do)", `unmatched   "transformer.blocks.7.attn1.to_q"`,
		`wrong shape "transformer.blocks.0.attn1.to_k": [1 80] and [84 1], the weight has [84 84]`,
		`half        "transformer.blocks.1.attn1.to_k"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	path = g.write(t, "diffusers", func(tensors map[string]safetensors.Tensor) {
		inf := nntest.Hash("x", 1, 4, 84)
		inf[7] /= 0 * inf[7]
		tensors["transformer.blocks.0.attn1.to_q.lora_A.weight"] = nntest.Tensor(inf, 4, 84)
	})
	_, err = openLoras(t, stages.Lora{Path: path, Scale: 1, Expert: stages.ExpertBoth})
	nntest.WantError(t, "damaged", err, "element 7 is not finite")
	err = loraModel(t).AddLoras([]stages.Lora{{Path: path, Scale: 1, Expert: stages.ExpertHigh}})
	nntest.WantError(t, "an expert", err, "the model has one denoiser")
	err = loraModel(t).AddLoras([]stages.Lora{{Path: "org/name", Scale: 1, Expert: stages.ExpertBoth}})
	nntest.WantError(t, "not pulled", err, "run `latentbeam pull org/name` first")
}
