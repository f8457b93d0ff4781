package latentbeam_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"latentbeam/internal/system/testaid"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/wan"
	"latentbeam/stages/weights"
)

// module copies an example into a module of its own, as a user would, and builds it. It returns the folder and the program's path.
func module(t *testing.T, example string) (dir, program string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("examples", example))); err != nil {
		t.Fatal(err)
	}
	writeModule(t, dir)
	program = filepath.Join(dir, "program")
	run(t, dir, "go", "build", "-mod=mod", "-o", program, ".")
	return dir, program
}

// TestStageOutside: the program of examples/stage lists its stage and runs a job with it.
func TestStageOutside(t *testing.T) {
	dir, program := module(t, "stage")
	if list := run(t, dir, program, "stages"); !strings.Contains(list, "watermark         frames   frames") {
		t.Errorf("the stage is not listed:\n%s", list)
	}
	run(t, dir, program, "run", "job.yaml")
	files, err := filepath.Glob(filepath.Join(dir, "out/videos/*/*.png"))
	if err != nil || len(files) != 1 {
		t.Fatalf("images %v, %v, want one", files, err)
	}
	checkStamp(t, files[0], 3)

	cmd := exec.Command(program, "run", "job.yaml", "--set", "stages.watermark.size=0")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "size is 0: give 1 or more pixels") {
		t.Errorf("an option out of range: %v\n%s", err, out)
	}
}

// TestDenoiserOutside: the program of examples/denoiser finds its denoiser by config.json. A row gives the same bytes alone, in a batch
// and on three workers that share each batch.
func TestDenoiserOutside(t *testing.T) {
	testaid.Long(t, "it builds a program and runs three jobs")
	dir, program := module(t, "denoiser")
	run(t, dir, program, "weights", "transformer")
	if text := run(t, dir, program, "inspect", "transformer"); !strings.Contains(text, "ToyDiT of depth 2 and width 48") {
		t.Errorf("inspect says\n%s", text)
	}
	prompts := "a red circle moves left\na blue square stays\na green triangle moves up\n"
	if err := os.WriteFile(filepath.Join(dir, "prompts.txt"), []byte(prompts), 0o644); err != nil {
		t.Fatal(err)
	}
	var want string
	for i, flags := range [][]string{{"resources.batch_size=1"}, {"resources.batch_size=3"},
		{"resources.workers=3", "stages.denoise.sequence_parallel=3"}} {
		args := []string{"run", "job.yaml", "--set", "model.path=" + tinyDir(t), "--output", fmt.Sprint("out", i)}
		for _, f := range flags {
			args = append(args, "--set", f)
		}
		run(t, dir, program, args...)
		got := digest(t, filepath.Join(dir, fmt.Sprint("out", i), "videos"), ".mp4", 3)
		if i == 0 {
			want = got
		}
		if got != want {
			t.Errorf("the videos with %v differ from those with resources.batch_size=1", flags)
		}
	}
}

// TestSamplerOutside: the sampler of examples/sampler denoises with a Wan of random weights. Its results differ from those of the
// model's own sampler, and the message about an unknown name lists it.
func TestSamplerOutside(t *testing.T) {
	testaid.Long(t, "it builds a program and runs two jobs")
	dir, program := module(t, "sampler")
	writeWan(t, filepath.Join(dir, "transformer"))
	jobArgs := func(output, sampler string) []string {
		return []string{"run", "job.yaml", "--output", output, "--set", "model={path: " + tinyDir(t) + ", transformer: transformer}",
			"--set", "stages.denoise.sampler=" + sampler, "--set", "defaults={height: 32, width: 32, num_frames: 1, num_inference_steps: 3}"}
	}
	run(t, dir, program, jobArgs("heun", "{name: heun, shift: 5}")...)
	run(t, dir, program, jobArgs("euler", "{name: euler, shift: 5}")...)
	if digest(t, filepath.Join(dir, "heun/videos"), ".png", 1) == digest(t, filepath.Join(dir, "euler/videos"), ".png", 1) {
		t.Error("heun and euler give the same image")
	}
	cmd := exec.Command(program, jobArgs("none", "{name: huen}")...)
	cmd.Dir = dir
	if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), `sampler has the name "huen": Wan has unipc, euler, dmd, heun`) {
		t.Errorf("an unknown sampler: %s", out)
	}
}

// TestExportOutside: the format of examples/export is listed, and its NumPy files contain the latents of the table.
func TestExportOutside(t *testing.T) {
	testaid.Long(t, "it builds a program and runs a job")
	dir, program := module(t, "export")
	if help := run(t, dir, program, "export", "--help"); !strings.Contains(help, "musubi, npy, safetensors") {
		t.Errorf("the format is not listed:\n%s", help)
	}
	run(t, dir, program, "run", "job.yaml")
	said := run(t, dir, program, "export", "out", "npy", "--to", "npy")
	if !strings.Contains(said, "2 rows in 4 files") { // statistics.json is the fourth
		t.Errorf("export prints %s", said)
	}
	index, err := os.ReadFile(filepath.Join(dir, "npy", "index.csv"))
	if err != nil || strings.Count(string(index), "\n") != 3 || !strings.Contains(string(index), "a blue square moves up") {
		t.Errorf("index.csv, want a header and 2 rows:\n%s, %v", index, err)
	}
	const header, latent = 128, 4 * 4 * 4 * 4 * 4 // bytes: the header of a .npy file, and 4 x 4 x 4 x 4 float32
	files, _ := filepath.Glob(filepath.Join(dir, "npy", "*.npy"))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || !bytes.HasPrefix(data, []byte("\x93NUMPY\x01\x00")) || !bytes.Contains(data[:header], []byte("'shape': (4, 4, 4, 4)")) ||
			len(data) != header+latent {
			t.Errorf("%s: %d bytes, want %d; it starts with %q, %v", file, len(data), header+latent, data[:min(len(data), header)], err)
		}
	}
	if len(files) != 2 {
		t.Errorf("got %d .npy files, want 2", len(files))
	}
}

// TestCookbook runs docs/cookbook.md block by block: it writes a block to the file that its fence names, and runs a block of sh. Every
// command must end with exit code 0.
func TestCookbook(t *testing.T) {
	testaid.Long(t, "it builds the program and runs some twenty jobs")
	text, err := os.ReadFile("docs/cookbook.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	run(t, ".", "go", "build", "-o", filepath.Join(bin, "latentbeam"), "./cmd/latentbeam")
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	commands := 0
	for _, block := range regexp.MustCompile("(?ms)^```(\\w+) ?(.*?)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		kind, about, body := block[1], block[2], block[3]
		if kind != "sh" {
			if err := os.WriteFile(filepath.Join(dir, about), []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if program, needs := strings.CutPrefix(about, "needs "); needs {
			if _, err := exec.LookPath(program); err != nil {
				t.Logf("NOT RUN, there is no %s:\n%s", program, body)
				continue
			}
		}
		run(t, dir, "sh", "-ec", body)
		commands += strings.Count(body, "latentbeam ")
	}
	if commands < 20 {
		t.Errorf("only %d commands were run, the page has 20 or more", commands)
	}
}

// tinyDir returns a directory with the built-in model.
func tinyDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("testdata/tiny")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// writeWan writes a denoiser of Wan with random weights that fits the encoder and the autoencoder of the built-in model.
func writeWan(t *testing.T, dir string) {
	t.Helper()
	config := []byte(`{"_class_name": "WanTransformer3DModel", "num_layers": 1, "num_attention_heads": 2, "attention_head_dim": 12,
		"patch_size": [1, 2, 2], "in_channels": 4, "out_channels": 4, "text_dim": 128, "freq_dim": 256, "ffn_dim": 48,
		"cross_attn_norm": true, "qk_norm": "rms_norm_across_heads", "eps": 1e-6, "rope_max_seq_len": 1024}`)
	c, err := wan.ParseConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	shapes := weights.ShapesOnly()
	if _, err := wan.Load(c, shapes); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"config.json": config,
		"diffusion_pytorch_model.safetensors": nntest.FileBytes(t, shapes.Requested())} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// digest returns one SHA-256 over the names and contents of the files below dir with a given suffix. There must be n of them.
func digest(t *testing.T, dir, ending string, n int) string {
	t.Helper()
	h := sha256.New()
	found := 0
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ending) {
			return err
		}
		found++
		data, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %x\n", e.Name(), sha256.Sum256(data))
		return err
	})
	if err != nil || found != n {
		t.Fatalf("%d files %s in %s, want %d: %v", found, ending, dir, n, err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// writeModule writes a go.mod to dir that uses this module from its directory and the same versions of other modules.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte("module latentbeam"), []byte("module example.com/watermark"), 1)
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, "go", "mod", "edit", "-require", "latentbeam@v0.0.0", "-replace", "latentbeam="+root)
}

// run runs a program in dir and returns what it prints.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkStamp checks that an image has a white square of a given size in its corner, and no white pixels next to it.
func checkStamp(t *testing.T, name string, size int) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, size - 1, size} {
		r, g, b, _ := img.At(at, at).RGBA()
		if white := min(r, g, b) == 0xffff; white != (at < size) {
			t.Errorf("pixel (%d, %d) is white: %v, want %v", at, at, white, at < size)
		}
	}
}
