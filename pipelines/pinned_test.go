package pipelines

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/pipelines/jobfile"
	"latentbeam/stages/catalog"
)

var updateKeys = flag.Bool("update-keys", false, "write testdata/keys.golden")

// pinnedJobs lists jobs of the built-in model with their tables, whose keys are pinned.
var pinnedJobs = []struct {
	name, input, defaults, stages, table string
}{
	{"text to video", "prompts: %q", "seed: 42",
		"[encode_text, denoise, decode_vae, guard, encode_video]",
		"prompt,seed,height,width,num_frames,num_videos_per_prompt\n" +
			"a red circle,1,,,,\n,2,,,,\n日本の庭,,32,16,1,\na red circle,1,,,,2\nA  red <b>circle</b>,,16,32,4,\n"},
	{"all parameters", "prompts: %q", "seed: 7, guidance_scale: 2.5, max_sequence_length: 20",
		"[encode_text: {clean: false}, denoise: {cfg_channel: 4}, decode_vae, encode_video: {qp: 30, gop: 8}]",
		"prompt,negative_prompt,guidance_scale,num_inference_steps,fps\na,dark,1,4,23.976\nb,,,3,\nc,,,,30\n"},
	{"embeddings", "prompts: %q", "seed: 42", "[encode_text]", "prompt\na\nb\n"},
	{"media", "media: %q", "seed: 42", "[encode_vae: {posterior: sample}, encode_text]", "path,caption\n%[1]s,a triangle\n"},
	{"media by default", "media: %q", "seed: 42", "[encode_vae, encode_text]", "path,caption\n%[1]s,a triangle\n"},
}

// TestPinnedKeys: the keys of rows for the stages of the catalogue and the built-in model, in the numeric class
// that every machine has, are the same as in commit d027f15. If this fails, all users would compute everything again.
func TestPinnedKeys(t *testing.T) {
	t.Setenv("LATENTBEAM_CPU", "go")
	picture, err := os.ReadFile("../testdata/media/triangle.png")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range pinnedJobs {
		dir := t.TempDir()
		file := func(name string, data []byte) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			return path
		}
		reference := file("picture.png", picture)
		table := file("table.csv", []byte(strings.ReplaceAll(p.table, "%[1]s", reference)))
		write := "[video, latents, embeddings]"
		switch p.name {
		case "embeddings":
			write = "[embeddings]"
		case "media", "media by default":
			write = "[latents, embeddings]"
		}
		text := fmt.Sprintf("version: 1\nmodel: tiny\ninput: {%s}\ndefaults: {height: 16, width: 16, num_frames: 2, fps: 8, "+
			"num_inference_steps: 2, %s}\nstages: %s\noutput: {path: %q, write: %s}\n", fmt.Sprintf(p.input, table),
			p.defaults, p.stages, filepath.Join(dir, "out"), write)
		cfg, err := config.Parse("job.yaml", text, nil)
		if err != nil {
			t.Fatal(p.name, err)
		}
		j, err := Open(cfg, Options{Specs: catalog.All(), Version: "test", Start: jobfile.Start{File: "job.yaml", YAML: text}})
		if err != nil {
			t.Fatal(p.name, err)
		}
		for e, err := range j.rows.Mine(t.Context()) {
			if err != nil || e.Failed != nil {
				t.Fatal(p.name, err, e.Failed)
			}
			lines = append(lines, fmt.Sprintf("%s %s: %.20q %d", e.Key, p.name, e.Row.Prompt, e.Row.SampleIndex))
		}
		j.Close()
	}
	const golden = "testdata/keys.golden"
	got := strings.Join(lines, "\n") + "\n"
	if *updateKeys {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the keys are\n%swant\n%s", got, want)
	}
}
