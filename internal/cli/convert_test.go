package cli

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/stages/stdit"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
	tt "latentbeam/stages/weights/torchpickle/torchtest"
	"latentbeam/testdata/tiny"
)

// tinyTensors returns a component of the built-in model as PyTorch tensors, by name.
func tinyTensors(t *testing.T, file string) (tensors []tt.Tensor) {
	t.Helper()
	data, err := fs.ReadFile(tiny.Files(), file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.New(data)
	if err != nil {
		t.Fatal(err)
	}
	storages := map[string]string{"F32": "FloatStorage", "BF16": "BFloat16Storage", "F16": "HalfStorage", "I64": "LongStorage"}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		tensors = append(tensors, tt.Tensor{Name: name, Storage: storages[x.DType], Shape: x.Shape, Data: x.Data})
	}
	return tensors
}

// index returns the index file of shards: which file has which tensor.
func index(shards map[string][]tt.Tensor) string {
	var lines []string
	for file, tensors := range shards {
		for _, x := range tensors {
			lines = append(lines, fmt.Sprintf("%q: %q", x.Name, file))
		}
	}
	slices.Sort(lines)
	return `{"metadata": {}, "weight_map": {` + strings.Join(lines, ",\n") + "}}"
}

// layOut writes the built-in model twice: as its own safetensors under st/, and under pt/ as hubs publish
// pickles: shards with an index, a .pth with the state dict at "ema", and a file of the old format.
func (s shell) layOut() {
	s.t.Helper()
	for _, name := range []string{"st/text_encoder/config.json", "st/text_encoder/model.safetensors",
		"st/text_encoder/spiece.model", "st/transformer/config.json", "st/transformer/model.safetensors",
		"st/vae/config.json", "st/vae/diffusion_pytorch_model.safetensors"} {
		inner := strings.TrimPrefix(name, "st/")
		data, err := fs.ReadFile(tiny.Files(), inner)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, to := range []string{name, "pt/" + inner} {
			if strings.HasSuffix(to, ".safetensors") && strings.HasPrefix(to, "pt/") {
				continue
			}
			if err := os.MkdirAll(filepath.Join(s.dir, filepath.Dir(to)), 0o755); err != nil {
				s.t.Fatal(err)
			}
			s.write(to, string(data))
		}
	}
	text := tinyTensors(s.t, "text_encoder/model.safetensors")
	shards := map[string][]tt.Tensor{"pytorch_model-00001-of-00002.bin": text[:9], "pytorch_model-00002-of-00002.bin": text[9:]}
	for file, tensors := range shards {
		s.write("pt/text_encoder/"+file, string(tt.Save(s.t, tensors...)))
	}
	s.write("pt/text_encoder/pytorch_model.bin.index.json", index(shards))
	var storages [][]byte
	denoiser := tinyTensors(s.t, "transformer/model.safetensors")
	for _, x := range denoiser {
		storages = append(storages, x.Data)
	}
	trained := tt.Dict(tt.Text("epoch"), tt.Int(7), tt.Text("ema"), tt.StateDict(denoiser...))
	s.write("pt/transformer/tiny.pth", string(tt.Zip(s.t, tt.Pickle(trained), storages...)))
	vae := tinyTensors(s.t, "vae/diffusion_pytorch_model.safetensors")
	storages = nil
	for _, x := range vae {
		storages = append(storages, x.Data)
	}
	s.write("pt/vae/diffusion_pytorch_model.bin", string(tt.Legacy(tt.Pickle(tt.StateDict(vae...)), 4, storages...)))
}

// tree reads the videos, posters and tables of an output. Other files differ between runs.
func (s shell) tree(dir string) map[string]string {
	s.t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(filepath.Join(s.dir, dir)), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "/") || strings.HasPrefix(path, "ledger/") ||
			strings.HasPrefix(path, "runs/") {
			return err
		}
		data, err := os.ReadFile(filepath.Join(s.dir, dir, path))
		files[path] = string(data)
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return files
}

// TestConvertThenRun: a run refuses pickles with an error that names convert. After convert, from one file or from shards, they
// give the same bytes as the safetensors from which they were made.
func TestConvertThenRun(t *testing.T) {
	job := strings.Replace(small, "defaults:", "defaults:\n  max_sequence_length: 64\n  fps: 8\n  guidance_scale: 2", 1)
	s := newShell(t, "job.yaml", job, "prompts.csv", threePrompts)
	s.layOut()
	model := func(te, dit, vae string) string {
		return fmt.Sprintf("model={text_encoder: %s, transformer: %s, vae: %s}", te, dit, vae)
	}

	s.says(s.run(2, "run", "job.yaml", "--set", model("pt/text_encoder", "st/transformer", "st/vae")),
		"PyTorch pickles can run code when read and are refused", "latentbeam convert")
	s.says(s.run(2, "run", "job.yaml", "--set", model("st/text_encoder", "pt/transformer/tiny.pth", "st/vae")),
		"latentbeam convert pt/transformer/tiny.pth")
	s.says(s.run(0, "inspect", "pt"), "PyTorch pickle in 2 shards", `"ema" of what it holds`, "latentbeam convert",
		"all 21 tensors of the model are there", "spiece.model", "STDiT of Open-Sora 1.0: depth 4", "AutoencoderKL")

	s.says(s.run(0, "convert", "pt/text_encoder", "converted/text_encoder", "--max-shard-size", "500KB"),
		"wrote  converted/text_encoder/spiece.model", "wrote  converted/text_encoder/model.safetensors.index.json",
		"model  T5 v1.1 encoder: 2 layers")
	s.says(s.run(0, "convert", "pt/transformer/tiny.pth"), "wrote  pt/transformer/tiny.safetensors", "took   \"ema\"")
	s.says(s.run(0, "convert", "pt/vae"), "wrote  pt/vae/diffusion_pytorch_model.safetensors")
	s.says(s.run(2, "convert", "pt/vae/diffusion_pytorch_model.bin"), "is there already")
	s.says(s.run(0, "inspect", "converted/text_encoder"), "safetensors in ", "shards", "all 21 tensors")

	s.run(0, "run", "job.yaml", "--set", model("st/text_encoder", "st/transformer", "st/vae"), "--set", "output.path=a")
	s.run(0, "run", "job.yaml", "--set", model("converted/text_encoder", "pt/transformer/tiny.safetensors", "pt/vae"),
		"--set", "output.path=b")
	a, b := s.tree("a"), s.tree("b")
	videos := 0
	for path, data := range a {
		if b[path] != data {
			t.Errorf("the file %s differs (%d and %d bytes)", path, len(data), len(b[path]))
		}
		if strings.HasSuffix(path, ".mp4") {
			videos++
		}
	}
	if len(a) != len(b) || videos != 3 {
		t.Errorf("the outputs have %d and %d files, with %d videos", len(a), len(b), videos)
	}
}

// TestInspectTellsWhatDoesNotFit: inspect names tensors that do not fit, with exit code 2, and lists all tensors with --tensors.
func TestInspectTellsWhatDoesNotFit(t *testing.T) {
	s := newShell(t)
	s.layOut()
	text := tinyTensors(t, "text_encoder/model.safetensors")
	text[0].Name = "stranger"
	s.write("pt/text_encoder/broken.pt", string(tt.Save(t, text...)))
	s.says(s.run(2, "inspect", "pt/text_encoder/broken.pt"), `"stranger"`, "missing", "unexpected",
		"2 tensors do not fit")
	s.says(s.run(0, "inspect", "st/vae", "--tensors"), "decoder.conv_in.weight", "F32 [64 4 3 3]")
	if err := os.Remove(filepath.Join(s.dir, "st/transformer/config.json")); err != nil {
		t.Fatal(err)
	}
	s.says(s.run(2, "inspect", "st/transformer"), "94 F32", "heads is not known", "write a config.json")
	s.write("bad.safetensors", "hello, this is a text file")
	s.says(s.run(2, "inspect", "bad.safetensors"), "not a safetensors file")
	s.says(s.run(2, "inspect", "absent"), "no such file")
	s.write("evil.pth", string(tt.Zip(t, tt.Pickle(tt.Call(tt.Global("os", "system"), tt.Text("touch "+filepath.Join(s.dir, "canary")))))))
	for _, verb := range []string{"inspect", "convert"} {
		s.says(s.run(2, verb, "evil.pth"), `asks for "os.system"`, "nothing of it was run")
	}
	if s.exists("canary") || s.exists("evil.safetensors") {
		t.Error("inspect has run the pickle or written a file")
	}
}

// TestFileWithoutConfig: the denoiser of Open-Sora 1.0 was published as a .pth without config.json. Its configuration is found
// from its tensors, and a run gives the same bytes as with a config.json beside it.
func TestFileWithoutConfig(t *testing.T) {
	config := `{"model_type": "STDiT", "hidden_size": 72, "depth": 1, "num_heads": 1, "caption_channels": 128,
		"model_max_length": 64, "space_scale": 0.5, "input_size": [16, 32, 32]}`
	w := weights.ShapesOnly()
	if _, err := stdit.Denoiser().Checkpoint.Load([]byte(config), w); err != nil {
		t.Fatal(err)
	}
	shapes := w.Requested()
	shapes["pos_embed"], shapes["pos_embed_temporal"] = []int{1, 256, 72}, []int{1, 16, 72}
	var tensors []tt.Tensor
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		n := 1
		for _, d := range shapes[name] {
			n *= d
		}
		var data []byte
		for range n {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(r.Float32()/10-0.05))
		}
		tensors = append(tensors, tt.Tensor{Name: name, Storage: "FloatStorage", Shape: shapes[name], Data: data})
	}
	job := strings.Replace(small, "defaults:", "defaults:\n  max_sequence_length: 64\n  fps: 8\n  guidance_scale: 2", 1)
	s := newShell(t, "job.yaml", job, "prompts.csv", threePrompts)
	s.layOut()
	s.write("OpenSora-v1.pth", string(tt.Save(t, tensors...)))
	s.says(s.run(0, "convert", "OpenSora-v1.pth"), "wrote  OpenSora-v1.safetensors", "STDiT of Open-Sora 1.0")
	s.says(s.run(0, "inspect", "OpenSora-v1.safetensors"), "by its tensors, there is no config.json", "complete")
	run := func(out string) {
		s.run(0, "run", "job.yaml", "--set", "output.path="+out, "--set", "stages.encode_video.marks=none", "--set",
			"model={text_encoder: st/text_encoder, transformer: OpenSora-v1.safetensors, vae: st/vae}")
	}
	run("guessed")
	s.write("config.json", config)
	run("written")
	videos := func(dir string) (all []string) {
		for path, data := range s.tree(dir) {
			if strings.HasSuffix(path, ".mp4") {
				all = append(all, data)
			}
		}
		slices.Sort(all)
		return all
	}
	if a, b := videos("guessed"), videos("written"); len(a) != 3 || !slices.Equal(a, b) {
		t.Errorf("the runs have %d and %d videos, or the bytes differ", len(a), len(b))
	}
}
