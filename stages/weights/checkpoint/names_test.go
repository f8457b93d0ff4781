package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatADirectoryHolds: the layouts of hubs are found, and the errors for other directories say what is wrong.
func TestWhatADirectoryHolds(t *testing.T) {
	const cache = "models--owner--name"
	for _, c := range []struct {
		files string // name, or name=content
		path  string
		want  string // the end of the file found, or of the error where it begins with "!"
	}{
		{"model.safetensors other.safetensors", "", "model.safetensors"},
		{"model.safetensors.index.json model-00001-of-00002.safetensors", "", "model.safetensors.index.json"},
		{"OpenSora.safetensors", "", "OpenSora.safetensors"},
		{"diffusion_pytorch_model.safetensors.index.fp16.json diffusion_pytorch_model.fp16-00001-of-00001.safetensors", "",
			"diffusion_pytorch_model.safetensors.index.fp16.json"},
		{"model.safetensors.index.fp16.json model.safetensors.index.json model.fp16-00001-of-00001.safetensors", "", "model.safetensors.index.json"},
		{"model.safetensors.index.fp16.json model.safetensors.index.bf16.json", "",
			"!several variants, name one: model.safetensors.index.bf16.json, model.safetensors.index.fp16.json"},
		{"model-00001-of-00002.safetensors model-00002-of-00002.safetensors", "",
			"!model.safetensors.index.json, which lists the tensors of each shard, is missing"},
		{"model-00002-of-00002.safetensors config.json", "", "!these are shards"},
		{"a.safetensors b.safetensors", "", "!several checkpoints, name one (it holds a.safetensors"},
		{"config.json", "", "!no model.safetensors or diffusion_pytorch_model.safetensors there (it holds config.json)"},
		{"", "", "!the directory is empty"},
		{"pytorch_model-00001-of-00002.bin pytorch_model-00002-of-00002.bin", "", "!pytorch_model.bin.index.json, which"},
		{"a.pth b.pth", "", "!several checkpoints, name one: a.pth, b.pth"},
		{cache + "/refs/main=abc " + cache + "/snapshots/abc/model.safetensors", cache, "snapshots/abc/model.safetensors"},
		{cache + "/refs/main=../../x " + cache + "/snapshots/abc/model.safetensors", cache, "!it holds refs, snapshots"},
		{cache + "/refs/main=gone " + cache + "/snapshots/abc/model.safetensors", cache, "!it holds refs, snapshots"},
	} {
		dir := t.TempDir()
		for _, file := range strings.Fields(c.files) {
			name, content, _ := strings.Cut(file, "=")
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		path := Snapshot(filepath.Join(dir, c.path))
		name, err := findAny(os.DirFS(path))
		got := filepath.Join(path, name)
		want, fails := strings.CutPrefix(c.want, "!")
		if err != nil {
			got = err.Error()
		}
		if fails != (err != nil) || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", c.files, got, c.want)
		}
	}
}
