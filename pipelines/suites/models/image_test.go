package models

import (
	"bytes"
	"fmt"
	"image/color"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
	"latentbeam/stages/nn/nntest"
	"latentbeam/stages/vae"
	"latentbeam/stages/weights"
	"latentbeam/stages/weights/safetensors"
)

// A small Open-Sora 1.3 with windows of 2 x 2 patches, which sets divide, and its autoencoder.
const (
	smallSTDiT13 = `{"model_type": "STDiT3", "hidden_size": 48, "depth": 1, "num_heads": 4, "caption_channels": 128,
	"model_max_length": 64, "qk_norm": true, "in_channels": 16, "kernel_size": [2, 2, -1], "use_spatial_rope": true}`
	smallVAE13 = `{"model_type": "OpenSoraVAE_V1_3_Pipline",
	"decoder": {"ch": 32, "ch_mult": [1, 1, 1, 1], "in_channels": 3, "num_res_blocks": 1, "out_ch": 3,
		"temporal_up_layers": [2, 3], "type": "VideoDecoder", "z_channels": 16},
	"encoder": {"ch": 32, "ch_mult": [1, 1, 1, 1], "double_z": true, "down_sampling_layer": [1, 2], "in_channels": 3,
		"num_res_blocks": 1, "out_ch": 3, "type": "VideoEncoder", "z_channels": 16}}`
)

// TestImagesOf13OnAnySet: videos of one and of two clips that Open-Sora 1.3 makes from images (cond_type) are the same on one worker and
// on sets of workers.
func TestImagesOf13OnAnySet(t *testing.T) {
	parsed, err := vae.ParseConfig([]byte(smallVAE13))
	jobtest.Must(t, err)
	names := weights.ShapesOnly()
	_, err = vae.Load(parsed, names)
	jobtest.Must(t, err)
	vae := writeComponent(t, smallVAE13, names.Requested())
	red, blue := jobtest.WritePicture(t, color.RGBA{200, 0, 0, 255}), jobtest.WritePicture(t, color.RGBA{0, 0, 200, 255})
	prompts := jobtest.WriteTable(t, "p.csv", "id,prompt,reference,loop,guidance_scale,num_frames\n"+
		fmt.Sprintf("red,a red circle,%s,,,\nblue,a red circle,%s,,1,\n", red, blue)+
		fmt.Sprintf("plain,a red circle,,,,\nclips,a red circle,%s,2,,33\n", red))
	denoiser := writeDenoiser(t, smallSTDiT13)
	run := func(condition string, video bool, sets ...string) map[string]string {
		t.Helper()
		out, rest, write := filepath.Join(t.TempDir(), "out"), "", "[latents]"
		if video {
			rest, write = ", decode_vae, encode_video", "[video, latents]"
		}
		text := fmt.Sprintf("version: 1\nmodel: {text_encoder: ../../../testdata/tiny/text_encoder, transformer: %q, vae: %q}\n"+
			"input: {prompts: %q}\ndefaults: {height: 48, width: 32, num_frames: 17, num_inference_steps: 2, seed: 7, "+
			"guidance_scale: 4, max_sequence_length: 64, condition_frame_length: 5, fps: 8}\n"+
			"stages: [encode_text, encode_reference, denoise: {version: \"1.3\", cond_type: %s}%s]\n"+
			"output: {path: %q, write: %s}\n", denoiser, vae, prompts, condition, rest, out, write)
		cfg, err := config.Parse("job.yaml", text, sets)
		jobtest.Must(t, err)
		if r := jobtest.RunConfig(t, cfg); r.Totals.Failed > 0 {
			t.Fatalf("%s, %s: %d rows failed", condition, sets, r.Totals.Failed)
		}
		found := map[string]string{}
		for _, row := range jobtest.ReadRows[schemas.LatentRow](t, out, "latents") {
			found[row.ID] = row.VAELatentSHA256
		}
		if !video {
			return found
		}
		for _, row := range jobtest.ReadRows[schemas.VideoRow](t, out, "videos") {
			found[row.ID] += fmt.Sprint(" ", row.NumFrames, " ", row.VideoSHA256)
		}
		return found
	}
	wide := []string{
		"resources.workers=3 stages.denoise.sequence_parallel=3",
		"resources.workers=3 stages.denoise.sequence_parallel=3 stages.denoise.partition=pad resources.batch_size=1",
		"resources.workers=4 stages.denoise.sequence_parallel=2 stages.denoise.tp_size=2",
	}
	for _, c := range []struct {
		condition string
		video     bool
		sets      []string
	}{{"i2v_head", true, wide[:1]}, {"i2v_loop", false, wide}, {"i2v_tail", false, wide[:1]}} {
		want := run(c.condition, c.video)
		if len(want) != 4 || want["red"] == want["blue"] || want["red"] == want["plain"] ||
			c.video && !strings.Contains(want["clips"], " 49 ") { // two clips of 33 frames, of which the second begins with the last 17 of the first
			t.Errorf("%s: the conditions have the wrong effect: %v", c.condition, want)
		}
		for _, set := range c.sets {
			if got := run(c.condition, c.video, strings.Fields(set)...); !maps.Equal(got, want) {
				t.Errorf("%s, %s: got %v, but on one worker %v", c.condition, set, got, want)
			}
		}
	}
}

// writeComponent writes a component with hashed weights into a new directory.
func writeComponent(t *testing.T, config string, shapes map[string][]int) string {
	t.Helper()
	tensors := map[string]safetensors.Tensor{}
	for name, shape := range shapes {
		tensors[name] = nntest.Tensor(nntest.Weight(name, shape...), shape...)
	}
	var file bytes.Buffer
	jobtest.Must(t, safetensors.Write(&file, tensors, nil))
	dir := t.TempDir()
	jobtest.Must(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644))
	jobtest.Must(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), file.Bytes(), 0o644))
	return dir
}
