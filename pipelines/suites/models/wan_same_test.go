package models

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
)

// wanKinds are the kinds of Wan models: text to video with one denoiser and with two, and each way in which a network reads an image.
var wanKinds = []struct{ name, file, kind string }{
	{"text", "wan-pipelines.json", "unipc"}, {"two denoisers", "wan-pipelines.json", "experts"},
	{"first frame", "wan-i2v.json", "first"}, {"beside by two denoisers", "wan-i2v.json", "experts"},
	{"with CLIP", "wan-i2v.json", "clip"},
}

// wanVariants are settings that change no byte of the output. pp_size is not used for a model of two denoisers.
var wanVariants = []string{
	"runner=prism",
	"resources.batch_size=1 resources.threads=1",
	"resources.batch_size=3 resources.threads=2",
	"resources.workers=2 stages.denoise.sequence_parallel=2",
	"resources.workers=3 stages.denoise.sequence_parallel=3 stages.denoise.partition=pad resources.batch_size=1",
	"resources.workers=5 stages.denoise.sequence_parallel=5",
	"resources.workers=7 stages.denoise.sequence_parallel=7 resources.batch_size=2",
	"resources.workers=4 stages.denoise.tp_size=2 stages.denoise.sequence_parallel=2 stages.encode_text.tp_size=2",
	"resources.workers=4 stages.denoise.pp_size=2 stages.encode_text.pp_size=2",
	"hosts stages.denoise.sequence_parallel=3",
	"hosts stages.denoise.tp_size=2 resources.workers=0",
}

// wanRows returns a table with rows of two sizes. Each row has its own image if the model reads images.
func wanRows(t *testing.T, c wanCase) string {
	t.Helper()
	text := "id,prompt,seed,guidance_scale,height,width,num_frames,reference\n"
	for i, row := range []struct {
		prompt      string
		guidance, h int
		frames      int
	}{{"a red ball", 4, c.Height, 5}, {"a cat runs", 1, c.Height, 5}, {"a dog", 3, c.Height, 9}, {"a red ball", 2, c.Height, 5}} {
		image := ""
		if free := bytes.Contains(c.Index, []byte("expand_timesteps")); c.Images > 0 && !(free && i == 3) {
			image = wanImages(t, c)[0]
		}
		text += fmt.Sprintf("r%d,%s,%d,%d,%d,%d,%d,%s\n", i, row.prompt, i, row.guidance, row.h, c.Width, row.frames, image)
	}
	return jobtest.WriteTable(t, "p.csv", text)
}

// TestWanSameBytes: the output of Wan does not depend on the runner, batches, threads, sets of workers, the division of weights and
// hosts. A short test runs each variant with one kind of model.
func TestWanSameBytes(t *testing.T) {
	jobtest.NeedPrism(t)
	token := jobtest.TokenFile(t, jobtest.WorkerToken)
	a, _ := jobtest.StartWorker(t, token, 1, nil)
	b, _ := jobtest.StartWorker(t, token, 2, nil)
	for nth, kind := range wanKinds {
		t.Run(kind.name, func(t *testing.T) {
			c := wanCasesOf(t, kind.file)[kind.kind]
			dir, table, two := wanDir(t, c), wanRows(t, c), bytes.Contains(c.Index, []byte("boundary_ratio"))
			run := func(variant string) jobtest.Output {
				t.Helper()
				sets := strings.Fields(variant)
				if strings.HasPrefix(variant, "hosts ") {
					sets = append(sets[1:], "resources.threads=1", fmt.Sprintf("resources.hosts=[%q,%q]", a, b),
						fmt.Sprintf("resources.token_file=%q", token))
				}
				out := filepath.Join(t.TempDir(), "out")
				r, err := runYAML(t, fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q, "+
					"write: [video, latents, embeddings]}\ndefaults: {num_inference_steps: 2}\n", dir, table, out), sets)
				if err != nil || r.Done != 4 || r.Totals.Failed > 0 {
					t.Fatalf("%s: got %+v, %v", variant, r.Totals, err)
				}
				return jobtest.MustRead(t, out)
			}
			want := run("")
			for i, variant := range wanVariants {
				if two && strings.Contains(variant, "denoise.pp_size") || testing.Short() && i%len(wanKinds) != nth {
					continue
				}
				if wrong := want.Diff(run(variant)); wrong != nil {
					t.Errorf("%s: the output differs:\n%s", variant, strings.Join(wrong, "\n"))
				}
			}
		})
	}
}
