package stages

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/stages/weights/safetensors"
)

// layOut writes files into a new directory.
func layOut(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpenModelSaysWhatIsWrong(t *testing.T) {
	dir := layOut(t, map[string]string{"file": "", "broken/model_index.json": "{",
		"old.pth": "", "part/config.json": "{}", "hub/t5/config.json": "{}", "hub/dit/config.json": "{}"})
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"part":    "neither model_index.json nor text_encoder, tokenizer, transformer, transformer_2, image_encoder, vae; if it is a single",
		"empty":   "transformer_2, image_encoder, vae; the directory is empty",
		"missing": "no such file or directory; give a directory with text_encoder, tokenizer, transformer, transformer_2, image_encoder, vae in it, a path",
		"file":    "not a directory; give the one with text_encoder, tokenizer, transformer, transformer_2, image_encoder, vae in it, or name a single",
		"hub":     "vae: ...}; it holds dit, t5",
		"broken":  "model_index.json: unexpected EOF",
	} {
		if _, err := OpenModel(filepath.Join(dir, path)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	for path, want := range map[string]string{
		"missing": "no such file or directory", "old.pth": "with `latentbeam convert`: latentbeam convert",
	} {
		_, err := OpenComponents(map[string]string{"vae": filepath.Join(dir, path)})
		if err == nil || !strings.Contains(err.Error(), "open model: vae is") || !strings.Contains(err.Error(), want) {
			t.Errorf("component %s: %v, want %s", path, err, want)
		}
	}
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	const name = "hpcai-tech/OpenSora-STDiT-v3"
	_, whole := OpenModel(name)
	_, part := OpenComponents(map[string]string{"vae": name})
	for _, err := range []error{whole, part} {
		if err == nil || !strings.Contains(err.Error(), "run `latentbeam pull "+name+"` first") {
			t.Errorf("the name of a repository: %v", err)
		}
	}
}

// TestPulledModel: a repository in the cache is a model by its name, at any downloaded revision, as a whole and as a
// component. A directory of the same name comes before it.
func TestPulledModel(t *testing.T) {
	commit := strings.Repeat("ab", 20)
	folder := "hub/models--org--video/"
	cache := layOut(t, map[string]string{folder + "refs/main": commit, folder + "refs/v1": commit,
		folder + "snapshots/" + commit + "/model_index.json":      `{"defaults": {"height": 64}}`,
		folder + "snapshots/" + commit + "/vae/config.json":       `{"vae": 1}`,
		folder + "snapshots/" + commit + "/transformer/spare.txt": ""})
	t.Setenv("HF_HUB_CACHE", "")
	t.Setenv("HUGGINGFACE_HUB_CACHE", "")
	t.Setenv("HF_HOME", cache)
	for _, name := range []string{"org/video", "org/video@v1", "org/video@" + commit} {
		m, err := OpenModel(name)
		if err != nil {
			t.Fatal(err)
		}
		if m.Name != name || m.Index.Defaults.Height != 64 {
			t.Errorf("%s is called %s, defaults %+v", name, m.Name, m.Index.Defaults)
		}
		if m, err = OpenComponents(map[string]string{"vae": name}); err != nil {
			t.Fatal(err)
		}
		if data, err := m.Config("vae"); err != nil || string(data) != `{"vae": 1}` {
			t.Errorf("vae of %s: %s, %v", name, data, err)
		}
	}
	if _, err := OpenModel("org/video@v2"); err == nil || !strings.Contains(err.Error(), "run `latentbeam pull org/video@v2` first") {
		t.Errorf("another revision: %v", err)
	}
	t.Chdir(layOut(t, map[string]string{"org/video/model_index.json": `{"defaults": {"height": 32}}`}))
	if m, err := OpenModel("org/video"); err != nil || m.Name != "video" || m.Index.Defaults.Height != 32 {
		t.Errorf("a directory of this name: %+v, %v", m, err)
	}
}

func TestModelFiles(t *testing.T) {
	dir := layOut(t, map[string]string{
		"model_index.json":      `{"defaults": {"height": 64, "guidance_scale": 0}, "unknown": 1}`,
		"text_encoder/a.json":   `{"b": 1, "c": 2}`,
		"transformer/model.bin": "", "transformer/config.json": "{}",
	})
	m, err := OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := m.Index.Defaults; d.Height != 64 || d.GuidanceScale == nil || *d.GuidanceScale != 0 || d.Width != 0 {
		t.Errorf("defaults %+v", d)
	}
	parts, err := OpenComponents(map[string]string{"text_encoder": filepath.Join(dir, "text_encoder")})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Model{m, parts} {
		var got struct{ B int }
		if err := m.ReadJSON("text_encoder/a.json", &got); err != nil || got.B != 1 {
			t.Errorf("%s: %+v, %v", m.Name, got, err)
		}
		_, err := m.ReadFile("vae/config.json")
		if err == nil || !strings.Contains(err.Error(), "read model "+m.Name) {
			t.Errorf("%s: a file that is not there: %v", m.Name, err)
		}
	}
	for component, want := range map[string]string{
		"transformer": "(it holds config.json, model.bin): PyTorch pickles can run code when read and are refused",
		"text_encoder": filepath.Join(dir, "text_encoder") + ": no model.safetensors or " +
			"diffusion_pytorch_model.safetensors there (it holds a.json)",
		"vae": "",
	} {
		if _, err := m.Weights(component); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("weights of %s: %v, want %s", component, err, want)
		}
	}
	for m, want := range map[*Model]string{m: "the directory is missing", parts: "the model has no vae: name it as"} {
		_, err := m.Weights("vae")
		_, config := m.Config("vae")
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, fs.ErrNotExist) || config == nil {
			t.Errorf("a component that is not there: %v, want %s; %v", err, want, config)
		}
	}
}

// weights is a safetensors file of one tensor.
func weights(t *testing.T, name string) string {
	t.Helper()
	var out bytes.Buffer
	one := safetensors.Tensor{DType: "U8", Shape: []int{1}, Data: []byte{1}}
	if err := safetensors.Write(&out, map[string]safetensors.Tensor{name: one}, nil); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestLayouts: weights are found under the names that hubs use, whole and in shards, in directories and as
// files.
func TestLayouts(t *testing.T) {
	a, b := weights(t, "a"), weights(t, "b")
	dir := layOut(t, map[string]string{
		"model/vae/diffusion_pytorch_model.safetensors": a, "model/vae/diffusion_pytorch_model.bin": "pickle",
		"model/text_encoder/model.safetensors.index.json": `{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}`,
		"model/text_encoder/1.safetensors":                a, "model/text_encoder/2.safetensors": b,
		"model/transformer/OpenSora-v1-HQ-16x256x256.safetensors": b,
		"bare/only.safetensors":                                   a,
		"model/tokenizer/spiece.model":                            "pieces",
	})
	whole, err := OpenModel(filepath.Join(dir, "model"))
	if err != nil {
		t.Fatal(err)
	}
	parts, err := OpenComponents(map[string]string{
		"vae":          filepath.Join(dir, "model/vae"),
		"text_encoder": filepath.Join(dir, "model/text_encoder/model.safetensors.index.json"),
		"transformer":  filepath.Join(dir, "model/transformer/OpenSora-v1-HQ-16x256x256.safetensors"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Model{whole, parts} {
		if data, err := m.ReadFile("tokenizer/spiece.model"); err != nil || string(data) != "pieces" {
			t.Errorf("the tokenizer beside the encoder of %s: %q, %v", m.Name, data, err)
		}
	}
	bare, err := OpenComponents(map[string]string{"vae": filepath.Join(dir, "bare")})
	if err != nil {
		t.Fatal(err)
	}
	if f, err := bare.Weights("vae"); err != nil || f.Names()[0] != "a" {
		t.Errorf("the only file of a directory: %v", err)
	}
	for component, want := range map[string]string{"vae": "a", "text_encoder": "a b", "transformer": "b"} {
		var digests []string
		for _, m := range []*Model{whole, parts} {
			f, err := m.Weights(component)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(f.Names(), " "); got != want {
				t.Errorf("%s of %s holds %q, want %q", component, m.Name, got, want)
			}
			digests = append(digests, f.Digest())
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		if digests[0] != digests[1] {
			t.Errorf("%s has two digests", component)
		}
	}
}

// TestConfigOfTensors: a component without config.json is asked for one by its tensors.
func TestConfigOfTensors(t *testing.T) {
	dir := layOut(t, map[string]string{"vae/model.safetensors": weights(t, "a"), "transformer/config.json": `{"b": 1}`})
	m, err := OpenModel(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Config("vae"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nobody to ask: %v", err)
	}
	m.Guess = func(component string, f *safetensors.File) ([]byte, error) {
		if f.Names()[0] != "a" {
			return nil, errors.New("not mine")
		}
		return []byte(component), nil
	}
	if data, err := m.Config("vae"); err != nil || string(data) != "vae" {
		t.Errorf("%q, %v", data, err)
	}
	if data, err := m.Config("transformer"); err != nil || string(data) != `{"b": 1}` {
		t.Errorf("%q, %v", data, err)
	}
	m.Guess = func(string, *safetensors.File) ([]byte, error) { return nil, errors.New("not mine") }
	if _, err := m.Config("vae"); err == nil || !strings.Contains(err.Error(), "its tensors do not tell: not mine") {
		t.Errorf("nobody knows: %v", err)
	}
}
