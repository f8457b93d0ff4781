package models

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/pipelines"
	"latentbeam/schemas"
	"latentbeam/stages/catalog"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/stdit"
	"latentbeam/stages/weights"
)

// smallFlow is the configuration of an Open-Sora 1.2 of one layer that fits the built-in text encoder.
const smallFlow = `{"model_type": "STDiT3", "hidden_size": 48, "depth": 1, "num_heads": 4, "caption_channels": 128,
	"model_max_length": 300, "qk_norm": true, "class_dropout_prob": 0.1}`

// writeDenoiser writes a denoiser with hashed weights into a new directory.
func writeDenoiser(t *testing.T, config string) string {
	t.Helper()
	cfg, err := stdit.ParseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	names := weights.ShapesOnly()
	if _, err := stdit.Load(cfg, names); err != nil {
		t.Fatal(err)
	}
	return writeComponent(t, config, names.Requested())
}

// presetJob opens a job with a preset and a model of separate components. It writes nothing.
func presetJob(t *testing.T, denoiser, prompts, preset, defaults string) (*pipelines.Job, *config.Config, error) {
	t.Helper()
	text := fmt.Sprintf("version: 1\npreset: %s\n"+
		"model: {text_encoder: ../../../testdata/tiny/text_encoder, transformer: %q}\n"+
		"input: {prompts: %q}\ndefaults: %s\nstages: [encode_text, denoise]\noutput: {path: %q, write: [latents]}\n",
		preset, denoiser, prompts, defaults, filepath.Join(t.TempDir(), "out"))
	cfg, err := config.Parse("job.yaml", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	job, err := pipelines.Open(cfg, pipelines.Options{Specs: catalog.All(), Version: "test"})
	return job, cfg, err
}

// TestPresetPlan: the rows of a plan combine the values of the preset, the job, the table and the model.
func TestPresetPlan(t *testing.T) {
	dir := writeDenoiser(t, smallFlow)
	prompts := jobtest.WriteTable(t, "p.csv", "prompt,aspect_ratio,num_frames,height,width,resolution\n"+
		"a,,,,,\nb,1:1,2s,,,\nc,,,64,32,\nd,,1,,,240p\ne,3:16,,,,\n")
	job, _, err := presetJob(t, dir, prompts, "opensora-v1.2-144p-4s", "{seed: 1}")
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	plan, err := job.Plan(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range plan.Buckets {
		got = append(got, fmt.Sprintf("%s %d %d", b.Shape, b.Shape.NumInferenceSteps, b.Shape.MaxSequenceLength))
	}
	const want = "256x144x102 30 300, 192x192x51 30 300, 32x64x102 30 300, 426x240x1 30 300"
	if s := strings.Join(got, ", "); s != want || plan.Failed != 1 {
		t.Errorf("the plan is %s with %d bad rows, want %s and 1", s, plan.Failed, want)
	}
}

// TestPresetMistakes: a value that a preset does not allow is an error with its line.
func TestPresetMistakes(t *testing.T) {
	dir := writeDenoiser(t, smallFlow)
	prompts := jobtest.WriteTable(t, "p.csv", "prompt\na\n")
	for defaults, want := range map[string]string{
		"{num_frames: 16}": "denoise: num_frames is 16: give 1, or 17 or more",
		"{aes: good}":      `encode_text: aes is "good": Open-Sora 1.2 reads a number`,
	} {
		_, _, err := presetJob(t, dir, prompts, "opensora-v1.2-144p-2s", defaults)
		nntest.WantError(t, defaults, err, want)
		nntest.WantError(t, defaults, err, "job.yaml:5:")
	}
}

// TestForeignModels: a preset of another version, and an autoencoder that does not fit the denoiser, are errors before the first row.
func TestForeignModels(t *testing.T) {
	dir := writeDenoiser(t, smallFlow)
	prompts := jobtest.WriteTable(t, "p.csv", "prompt\na\n")
	_, _, err := presetJob(t, dir, prompts, "opensora-v1.3-144p-49f", "{}")
	nntest.WantError(t, "a preset", err, `denoise: version is "1.3", but the model is of Open-Sora 1.2`)
	text := fmt.Sprintf("version: 1\npreset: opensora-v1.2-144p-2s\n"+
		"model: {text_encoder: ../../../testdata/tiny/text_encoder, transformer: %q, vae: ../../../testdata/tiny/vae}\n"+
		"input: {prompts: %q}\noutput: {path: %q}\n", dir, prompts, filepath.Join(t.TempDir(), "out"))
	for frames, want := range map[string]string{
		"51": "job.yaml:3:1: num_frames is 51, height 144 and width 256: denoise has latents of shape [4 15 18 32] for " +
			"that (channels, frames, height, width), decode_vae of [4 51 18 32]: the autoencoder is not",
		"1": "", // one frame has the same latents in both autoencoders
	} {
		cfg, err := config.Parse("job.yaml", text, []string{"defaults.num_frames=" + frames})
		if err != nil {
			t.Fatal(err)
		}
		job, err := pipelines.Open(cfg, pipelines.Options{Specs: catalog.All(), Version: "test"})
		nntest.WantError(t, frames+" frames", err, want)
		if err == nil {
			job.Close()
		}
	}
}

// TestPresetRun runs a job with a preset. Its latents have the shape of Open-Sora 1.2, and the aesthetic score and guidance affect them.
func TestPresetRun(t *testing.T) {
	dir := writeDenoiser(t, smallFlow)
	prompts := jobtest.WriteTable(t, "p.csv", "prompt,aes\na red circle,\na red circle,none\na red circle,6.5\n")
	job, _, err := presetJob(t, dir, prompts, "opensora-v1.2-144p-2s", "{num_frames: 17, num_inference_steps: 2, "+
		"height: 32, width: 40}")
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	if err := job.Attach(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := job.Run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	rows := jobtest.ReadRows[schemas.LatentRow](t, job.Config.Output.Path, "latents")
	if len(rows) != 3 || fmt.Sprint(rows[0].VAELatentShape) != "[4 5 4 5]" || rows[0].GuidanceScale != 7 {
		t.Fatalf("got %d rows, the first of shape %v with guidance %g", len(rows), rows[0].VAELatentShape, rows[0].GuidanceScale)
	}
	if rows[0].VAELatentSHA256 == rows[1].VAELatentSHA256 || rows[0].VAELatentSHA256 != rows[2].VAELatentSHA256 {
		t.Error("the score of the preset differs from the same score of a row, or has no effect")
	}
}
