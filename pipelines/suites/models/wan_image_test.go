package models

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
	"latentbeam/stages/nn/nntest"
)

// wanImageStages returns the stages of an image-to-video case between encode_text and decode_vae.
func wanImageStages(c wanCase) string {
	if bytes.Contains(c.Index, []byte("expand_timesteps")) {
		return "encode_image, denoise"
	}
	if c.ImageEncoder != nil {
		return "encode_image: {frames: all}, embed_image, denoise"
	}
	return "encode_image: {frames: all}, denoise"
}

// TestWanImagePipelines runs whole models of diffusers from a prompt, an image and given noise, and compares latents and pixels with
// those of diffusers' WanImageToVideoPipeline.
func TestWanImagePipelines(t *testing.T) {
	cases := wanCasesOf(t, "wan-i2v.json")
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) { cases[name].compare(t, wanImageStages(cases[name])) })
	}
}

// TestWanImages: image to video needs only a model directory and a table with images. Rows without an image have the keys and bytes of a
// job without the image stages.
func TestWanImages(t *testing.T) {
	cases := wanCasesOf(t, "wan-i2v.json")
	for _, name := range wanImageKinds {
		t.Run(name, func(t *testing.T) {
			c := cases[name]
			dir, other := wanDir(t, c), c
			other.Images = 1
			table := "id,prompt,seed,guidance_scale,reference\n"
			for i := range 2 {
				table += fmt.Sprintf("i%d,a red ball,%d,%d,%s\n", i, 1+i, 3+i, wanImages(t, other)[0])
			}
			free := bytes.Contains(c.Index, []byte("expand_timesteps"))
			if free {
				table += "plain,a red ball,1,3,\n"
			}
			run := func(stages string) (string, map[string]string) {
				t.Helper()
				out := filepath.Join(t.TempDir(), "out")
				text := fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q, write: [video, latents]}\n"+
					"defaults: {height: %d, width: %d, num_frames: 5, num_inference_steps: 3}\n%s", dir,
					jobtest.WriteTable(t, "p.csv", table), out, c.Height, c.Width, stages)
				r, err := runYAML(t, text, nil)
				if err != nil || r.Totals.Failed > 0 {
					t.Fatalf("got %+v, %v", r.Totals, err)
				}
				found := map[string]string{}
				for _, row := range jobtest.ReadRows[schemas.LatentRow](t, out, "latents") {
					found[row.ID] = row.VAELatentSHA256 + row.Key
				}
				return out, found
			}
			out, want := run("")
			if len(want) != 2 && !free || free && len(want) != 3 || want["i0"] == want["i1"] {
				t.Fatalf("the rows are %v", want)
			}
			if videos, _ := filepath.Glob(filepath.Join(out, "videos", "*")); len(videos) == 0 {
				t.Error("there are no videos")
			}
			if !free {
				return
			}
			table = "id,prompt,seed,guidance_scale\nplain,a red ball,1,3\n"
			if _, got := run("stages: [encode_text, denoise, decode_vae, encode_video]\n"); got["plain"] != want["plain"] {
				t.Errorf("a row without an image has %q, but %q in a job without the image stages", want["plain"], got["plain"])
			}
		})
	}
}

// wanImageKinds names one case for each way in which a network reads an image.
var wanImageKinds = []string{"first", "experts", "clip"}

// TestWanImageMistakes: an impossible job or row is an error before anything is computed.
func TestWanImageMistakes(t *testing.T) {
	c := wanCasesOf(t, "wan-i2v.json")["first"]
	dir := wanDir(t, c)
	picture := wanImages(t, c)[0]
	for _, m := range []struct{ columns, values, stages, want string }{
		{"reference", picture, "[encode_text, denoise, decode_vae, encode_video]", "nothing has encoded it: put `- encode_image: {}`"},
		{"reference", picture + ";" + picture, "", "reference has 2 images"},
		{"reference,mask_strategy", picture + ",0", "", "mask_strategy is given, but Wan takes none"},
		{"reference", filepath.Join(t.TempDir(), "none.png"), "", "none.png"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		text := fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q}\n"+
			"defaults: {height: %d, width: %d, num_frames: 5, num_inference_steps: 2}\n", dir,
			jobtest.WriteTable(t, "p.csv", "prompt,"+m.columns+"\na ball,"+m.values+"\n"), out, c.Height, c.Width)
		if m.stages != "" {
			text += "stages: " + m.stages + "\n"
		}
		r, err := runYAML(t, text, nil)
		if err != nil || r.Totals.Failed != 1 {
			t.Fatalf("%s: got %+v, %v", m.columns, r.Totals, err)
		}
		for _, row := range jobtest.ReadRows[schemas.FailureRow](t, out, "failures") {
			nntest.WantError(t, m.values, fmt.Errorf("%s", row.Message), m.want)
		}
	}
}
