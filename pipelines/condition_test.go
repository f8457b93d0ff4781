package pipelines_test

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/pipelines"
	"latentbeam/schemas"
	"latentbeam/stages/nn/nntest"
	"latentbeam/transforms/table"
)

// smallSTDiT2 is an Open-Sora 1.1 of one layer that goes with the built-in text encoder and autoencoder.
const smallSTDiT2 = `{"model_type": "STDiT2", "hidden_size": 48, "depth": 2, "num_heads": 4, "caption_channels": 128,
	"model_max_length": 64, "qk_norm": true, "input_sq_size": 512}`

// writePicture writes a png of one colour.
func writePicture(t *testing.T, c color.Color) string {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, 30, 20))
	for i := range img.Pix {
		r, g, b, _ := c.RGBA()
		img.Pix[i] = []byte{byte(r >> 8), byte(g >> 8), byte(b >> 8), 255}[i%4]
	}
	path := filepath.Join(t.TempDir(), "picture.png")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, img); err != nil {
		t.Fatal(err)
	}
	return path
}

func inTables(out, name string) string { return filepath.Join(out, "tables", name+"-00000.parquet") }

// TestReferencesAndClips runs image conditioning and a video of two clips from the prompt table to video and
// latents: conditions count by content, a clip's shared frames are in the video once, a rerun does nothing, and a set
// of three workers gives the same.
func TestReferencesAndClips(t *testing.T) {
	red, same, blue := writePicture(t, color.RGBA{200, 0, 0, 255}), writePicture(t, color.RGBA{200, 0, 0, 255}),
		writePicture(t, color.RGBA{0, 0, 200, 255})
	prompts := writeTable(t, "p.csv", "id,prompt,reference,mask_strategy,loop\n"+
		"plain,a red circle,,,\n"+
		fmt.Sprintf("red,a red circle,%s,0,\nsame,a red circle,%s,0,\nblue,a red circle,%s,0,\n", red, same, blue)+
		"clips,|0|a red circle|1|a blue square,,,2\nlong,a red circle,,,2\n"+
		fmt.Sprintf(`suffix,"a red circle{""reference_path"": ""%s"", ""mask_strategy"": ""0""}",,,`, red)+"\n"+
		"missing,a red circle,none.png,0,\nmask,a red circle,"+red+",\"0,1\",\n")
	out := filepath.Join(t.TempDir(), "out")
	text := fmt.Sprintf("version: 1\npreset: opensora-v1.1-144p-16f\n"+
		"model: {text_encoder: ../testdata/tiny/text_encoder, transformer: %q, vae: ../testdata/tiny/vae}\n"+
		"input: {prompts: %q}\ndefaults: {height: 16, width: 16, num_frames: 5, num_inference_steps: 2, seed: 7, "+
		"max_sequence_length: 64, condition_frame_length: 2}\noutput: {path: %q, write: [video, latents]}\n"+
		"on_error: {stop_after: 100}\n", writeDenoiser(t, smallSTDiT2), prompts, out)
	run := func(sets ...string) pipelines.Result {
		t.Helper()
		cfg, err := config.Parse("job.yaml", text, sets)
		if err != nil {
			t.Fatal(err)
		}
		return runs(t, cfg)
	}
	run()
	latents := map[string]schemas.LatentRow{}
	for row, err := range table.Read[schemas.LatentRow](inTables(out, "latents"), false) {
		if err != nil {
			t.Fatal(err)
		}
		latents[row.ID] = row
	}
	digest := func(id string) string { return latents[id].VAELatentSHA256 }
	if digest("red") != digest("same") || digest("red") != digest("suffix") || digest("red") == digest("blue") ||
		digest("red") == digest("plain") || digest("clips") == digest("long") {
		t.Errorf("conditions count in another way: %v", latents)
	}
	if !slices.Equal(latents["clips"].VAELatentShape, []int64{4, 10, 2, 2}) ||
		!slices.Equal(latents["red"].VAELatentShape, []int64{4, 5, 2, 2}) {
		t.Errorf("latents %v and %v", latents["clips"].VAELatentShape, latents["red"].VAELatentShape)
	}
	failures := map[string]string{}
	for row, err := range table.Read[schemas.FailureRow](inTables(out, "failures"), false) {
		if err != nil {
			t.Fatal(err)
		}
		failures[row.ID] = row.Message
	}
	if len(failures) != 2 || len(latents) != 7 {
		t.Errorf("%d latents, failures %v", len(latents), failures)
	}
	nntest.WantError(t, "a file that is missing", fmt.Errorf("%s", failures["missing"]), "no such file")
	nntest.WantError(t, "a reference too many", fmt.Errorf("%s", failures["mask"]), "takes reference 1, but there")
	for row, err := range table.Read[schemas.VideoRow](inTables(out, "videos"), false) {
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{"clips": 8, "long": 8}[row.ID] // two of 5, which share 2
		if want == 0 {
			want = 5
		}
		if row.NumFrames != want {
			t.Errorf("%s has %d frames, want %d", row.ID, row.NumFrames, want)
		}
	}
	if again := run(); again.Done != 0 {
		t.Errorf("a rerun computes %d rows", again.Done)
	}
	wide := filepath.Join(t.TempDir(), "wide")
	run(fmt.Sprintf("output.path=%q", wide), "resources.workers=3", "stages.denoise.sequence_parallel=3",
		"resources.batch_size=1")
	for row, err := range table.Read[schemas.LatentRow](inTables(wide, "latents"), false) {
		if err != nil {
			t.Fatal(err)
		}
		if row.VAELatentSHA256 != digest(row.ID) {
			t.Errorf("%s has other latents on a set of three workers", row.ID)
		}
		delete(latents, row.ID)
	}
	if len(latents) > 0 {
		t.Errorf("a set of three workers has no latents of %v", latents)
	}
}

// TestClipsThroughTables: a video of several clips and texts comes out the same in one job and in three that go on
// from each other's tables, with the denoiser's blocks over two workers; a table without the later texts is refused by its rows.
func TestClipsThroughTables(t *testing.T) {
	prompts := writeTable(t, "p.csv", "id,prompt,negative_prompt\n"+
		"two,|0|a red circle|1|a blue square,\nlong,a red circle,a green star\nthree,|0|a red circle|1|a star|2|a bird,x\n")
	denoiser := writeDenoiser(t, smallSTDiT2)
	step := func(input, list, write string) (string, pipelines.Result) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		text := fmt.Sprintf("version: 1\nmodel: {text_encoder: ../testdata/tiny/text_encoder, transformer: %q, "+
			"vae: ../testdata/tiny/vae}\ninput: %s\ndefaults: {height: 16, width: 16, num_frames: 5, seed: 7, loop: 3, "+
			"num_inference_steps: 2, max_sequence_length: 64, condition_frame_length: 2, fps: 8}\nstages: %s\n"+
			"output: {path: %q, write: %s}\nresources: {workers: 2}\non_error: {stop_after: 100}\n", denoiser, input, list, out, write)
		cfg, err := config.Parse("job.yaml", text, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out, runs(t, cfg)
	}
	from := func(out, table string) string { return fmt.Sprintf("{%s: %q}", table, inTables(out, table)) }
	videos := func(out string) map[string]string {
		found := map[string]string{}
		for row, err := range table.Read[schemas.VideoRow](inTables(out, "videos"), false) {
			if err != nil {
				t.Fatal(err)
			}
			found[row.Prompt] = fmt.Sprint(row.VideoSHA256, row.NumFrames)
		}
		return found
	}
	whole, _ := step(fmt.Sprintf("{prompts: %q}", prompts), "[encode_text, denoise, decode_vae, encode_video]", "[video]")
	texts, _ := step(fmt.Sprintf("{prompts: %q}", prompts), "[encode_text]", "[embeddings]")
	latents, r := step(from(texts, "embeddings"), "[denoise: {pp_size: 2}]", "[latents]")
	if r.Totals.Failed != 0 {
		t.Fatalf("%d rows failed", r.Totals.Failed)
	}
	frames, _ := step(from(latents, "latents"), "[decode_vae, encode_video]", "[video]")
	want, got := videos(whole), videos(frames)
	if len(want) != 3 || !maps.Equal(want, got) {
		t.Errorf("videos %v, in three jobs %v", want, got)
	}
	var rows []schemas.EmbeddingRow
	for row, err := range table.Read[schemas.EmbeddingRow](inTables(texts, "embeddings"), true) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if s := fmt.Sprint(rows[2].LaterEmbeddingClips, len(rows[2].LaterEmbeddingLengths), rows[1].LaterEmbeddingClips); s !=
		"[1 2] 2 []" {
		t.Errorf("texts of later clips: %s", s)
	}
	rows[0].LaterEmbeddingClips = nil // as older tables are
	rows[2].LaterEmbeddingLengths[0]++
	path := filepath.Join(t.TempDir(), "embeddings.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := table.Write(f, func(yield func(schemas.EmbeddingRow, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}, table.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	old, r := step(fmt.Sprintf("{embeddings: %q}", path), "[denoise]", "[latents]")
	var messages []string
	for row, err := range table.Read[schemas.FailureRow](inTables(old, "failures"), false) {
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, row.Message)
	}
	slices.Sort(messages)
	if r.Totals.Failed != 2 || len(messages) != 2 || !strings.Contains(messages[0], "texts of later clips: number 2") ||
		!strings.Contains(messages[1], "make it anew with that loop") {
		t.Errorf("%d failed: %q", r.Totals.Failed, messages)
	}
}
