package hub

import (
	"slices"
	"strings"
	"testing"
)

// TestChoose: for repositories of every form, the files that a job needs are chosen, or an error says how to choose.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name, files, include, want, fails string
	}{
		{name: "one component", files: "config.json model.safetensors pytorch_model.bin README.md model.fp16.safetensors",
			want: "README.md config.json model.safetensors"},
		{name: "pickles alone", files: "config.json pytorch_model-00001-of-00002.bin pytorch_model-00002-of-00002.bin " +
			"pytorch_model.bin.index.json spiece.model rust_model.ot",
			want: "config.json pytorch_model-00001-of-00002.bin pytorch_model-00002-of-00002.bin " +
				"pytorch_model.bin.index.json spiece.model"},
		{name: "pickles beside", files: "model.safetensors pytorch_model.bin.index.json pytorch_model-00001-of-00001.bin",
			want: "model.safetensors"},
		{name: "whole and shards", files: "model.safetensors model.safetensors.index.json model-00001-of-00002.safetensors",
			want: "model.safetensors model.safetensors.index.json"},
		{name: "a name of its own", files: "OpenSora-v1.pth README.md", want: "OpenSora-v1.pth README.md"},
		{name: "several", files: "a.pth b.pth", fails: "2 checkpoints and does not say which is meant: a.pth, b.pth; choose with --include"},
		{name: "several, chosen", files: "a.pth b.pth c.json", include: "b*", want: "b.pth c.json"},
		{name: "configurations alone", files: "config.json model.safetensors spiece.model", include: "*.json", want: "config.json spiece.model"},
		{name: "chosen below", files: "x/a.safetensors x/b.safetensors", include: "b.safetensors", want: "x/b.safetensors"},
		{name: "chosen, none", files: "a.pth", include: "z*", fails: `no file of the repository is called "z*"; it holds a.pth`},
		{name: "an odd variant alone", files: "vae/diffusion_pytorch_model.fp16.safetensors vae/config.json model_index.json",
			want: "model_index.json vae/config.json vae/diffusion_pytorch_model.fp16.safetensors"},
		{name: "two experts", files: "model_index.json transformer/model.safetensors transformer_2/model.safetensors unet/model.safetensors",
			want: "model_index.json transformer/model.safetensors transformer_2/model.safetensors"},
	} {
		var files []RepoFile
		for _, path := range strings.Fields(c.files) {
			files = append(files, RepoFile{Path: path})
		}
		var include []string
		if c.include != "" {
			include = []string{c.include}
		}
		chosen, err := choose(files, include)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if want := strings.Fields(c.want); err != nil || !slices.Equal(paths(chosen), want) {
			t.Errorf("%s: %q, %v, want %q", c.name, paths(chosen), err, want)
		}
	}
}
