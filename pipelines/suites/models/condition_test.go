package models

import (
	"fmt"
	"image/color"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/pipelines"
	"latentbeam/schemas"
	"latentbeam/stages/nn/nntest"
)

// smallSTDiT2 is the configuration of a small Open-Sora 1.1 that fits the built-in text encoder and autoencoder.
const smallSTDiT2 = `{"model_type": "STDiT2", "hidden_size": 48, "depth": 2, "num_heads": 4, "caption_channels": 128,
	"model_max_length": 64, "qk_norm": true, "input_sq_size": 512}`

// TestReferencesAndClips runs image conditioning, and a video of two clips, from the prompt table to videos and latents. Equal images in
// different files give equal latents. The frames that two clips share are in the video once. A rerun computes nothing, and a set of
// three workers gives the same latents.
func TestReferencesAndClips(t *testing.T) {
	red, same, blue := jobtest.WritePicture(t, color.RGBA{200, 0, 0, 255}), jobtest.WritePicture(t, color.RGBA{200, 0, 0, 255}),
		jobtest.WritePicture(t, color.RGBA{0, 0, 200, 255})
	prompts := jobtest.WriteTable(t, "p.csv", "id,prompt,reference,mask_strategy,loop\n"+
		"plain,a red circle,,,\n"+
		fmt.Sprintf("red,a red circle,%s,0,\nsame,a red circle,%s,0,\nblue,a red circle,%s,0,\n", red, same, blue)+
		"clips,|0|a red circle|1|a blue square,,,2\nlong,a red circle,,,2\n"+
		fmt.Sprintf(`suffix,"a red circle{""reference_path"": ""%s"", ""mask_strategy"": ""0""}",,,`, red)+"\n"+
		"missing,a red circle,none.png,0,\nmask,a red circle,"+red+",\"0,1\",\n")
	out := filepath.Join(t.TempDir(), "out")
	text := fmt.Sprintf("version: 1\npreset: opensora-v1.1-144p-16f\n"+
		"model: {text_encoder: ../../../testdata/tiny/text_encoder, transformer: %q, vae: ../../../testdata/tiny/vae}\n"+
		"input: {prompts: %q}\ndefaults: {height: 16, width: 16, num_frames: 5, num_inference_steps: 2, seed: 7, "+
		"max_sequence_length: 64, condition_frame_length: 2}\noutput: {path: %q, write: [video, latents]}\n"+
		"on_error: {stop_after: 100}\n", writeDenoiser(t, smallSTDiT2), prompts, out)
	run := func(sets ...string) pipelines.Result {
		t.Helper()
		cfg, err := config.Parse("job.yaml", text, sets)
		if err != nil {
			t.Fatal(err)
		}
		return jobtest.RunConfig(t, cfg)
	}
	run()
	latentsOf := func(out string) map[string]schemas.LatentRow {
		found := map[string]schemas.LatentRow{}
		for _, row := range jobtest.ReadRows[schemas.LatentRow](t, out, "latents") {
			row.VAELatentBytes = nil // the row has their digest
			found[row.ID] = row
		}
		return found
	}
	latents := latentsOf(out)
	digest := func(id string) string { return latents[id].VAELatentSHA256 }
	if digest("red") != digest("same") || digest("red") != digest("suffix") || digest("red") == digest("blue") ||
		digest("red") == digest("plain") || digest("clips") == digest("long") {
		t.Errorf("conditions have the wrong effect: %v", latents)
	}
	if !slices.Equal(latents["clips"].VAELatentShape, []int64{4, 10, 2, 2}) ||
		!slices.Equal(latents["red"].VAELatentShape, []int64{4, 5, 2, 2}) {
		t.Errorf("latents of shapes %v and %v", latents["clips"].VAELatentShape, latents["red"].VAELatentShape)
	}
	failures := map[string]string{}
	for _, row := range jobtest.ReadRows[schemas.FailureRow](t, out, "failures") {
		failures[row.ID] = row.Message
	}
	if len(failures) != 2 || len(latents) != 7 {
		t.Errorf("got %d latents, failures %v", len(latents), failures)
	}
	nntest.WantError(t, "a file that is missing", fmt.Errorf("%s", failures["missing"]), "no such file")
	nntest.WantError(t, "a reference too many", fmt.Errorf("%s", failures["mask"]), "takes reference 1, but there")
	for _, row := range jobtest.ReadRows[schemas.VideoRow](t, out, "videos") {
		want := map[string]int64{"clips": 8, "long": 8}[row.ID] // two clips of 5 frames, of which they share 2
		if want == 0 {
			want = 5
		}
		if row.NumFrames != want {
			t.Errorf("%s has %d frames, want %d", row.ID, row.NumFrames, want)
		}
	}
	if again := run(); again.Done != 0 {
		t.Errorf("a rerun computes %d rows, want 0", again.Done)
	}
	wide := filepath.Join(t.TempDir(), "wide")
	run(fmt.Sprintf("output.path=%q", wide), "resources.workers=3", "stages.denoise.sequence_parallel=3",
		"resources.batch_size=1")
	if got := latentsOf(wide); !reflect.DeepEqual(got, latents) {
		t.Errorf("a set of three workers has other latents: %v, want %v", got, latents)
	}
}
