package models

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"latentbeam/internal/config"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/pipelines"
	"latentbeam/schemas"
)

// TestClipsThroughTables: a video of several clips and texts is the same from one job and from three jobs that each read the table of
// the one before, with the denoiser's blocks on two workers. If a table lacks the texts of later clips, its rows fail.
func TestClipsThroughTables(t *testing.T) {
	prompts := jobtest.WriteTable(t, "p.csv", "id,prompt,negative_prompt\n"+
		"two,|0|a red circle|1|a blue square,\nlong,a red circle,a green star\nthree,|0|a red circle|1|a star|2|a bird,x\n")
	denoiser := writeDenoiser(t, smallSTDiT2)
	step := func(input, list, write string) (string, pipelines.Result) {
		t.Helper()
		out := filepath.Join(t.TempDir(), "out")
		text := fmt.Sprintf("version: 1\nmodel: {text_encoder: ../../../testdata/tiny/text_encoder, transformer: %q, "+
			"vae: ../../../testdata/tiny/vae}\ninput: %s\ndefaults: {height: 16, width: 16, num_frames: 5, seed: 7, loop: 3, "+
			"num_inference_steps: 2, max_sequence_length: 64, condition_frame_length: 2, fps: 8}\nstages: %s\n"+
			"output: {path: %q, write: %s}\nresources: {workers: 2}\non_error: {stop_after: 100}\n", denoiser, input, list, out, write)
		cfg, err := config.Parse("job.yaml", text, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out, jobtest.RunConfig(t, cfg)
	}
	from := func(out, table string) string { return fmt.Sprintf("{%s: %q}", table, jobtest.TableFile(out, table)) }
	videos := func(out string) map[string]string {
		found := map[string]string{}
		for _, row := range jobtest.ReadRows[schemas.VideoRow](t, out, "videos") {
			found[row.Prompt] = fmt.Sprint(row.VideoSHA256, row.NumFrames)
		}
		return found
	}
	whole, _ := step(fmt.Sprintf("{prompts: %q}", prompts), "[encode_text, denoise, decode_vae, encode_video: {marks: none}]", "[video]")
	texts, _ := step(fmt.Sprintf("{prompts: %q}", prompts), "[encode_text]", "[embeddings]")
	latents, r := step(from(texts, "embeddings"), "[denoise: {pp_size: 2}]", "[latents]")
	if r.Totals.Failed != 0 {
		t.Fatalf("%d rows failed", r.Totals.Failed)
	}
	frames, _ := step(from(latents, "latents"), "[decode_vae, encode_video]", "[video]")
	want, got := videos(whole), videos(frames)
	if len(want) != 3 || !maps.Equal(want, got) {
		t.Errorf("one job gives the videos %v, three jobs give %v", want, got)
	}
	rows := jobtest.ReadRows[schemas.EmbeddingRow](t, texts, "embeddings")
	if s := fmt.Sprint(rows[2].LaterEmbeddingClips, len(rows[2].LaterEmbeddingLengths), rows[1].LaterEmbeddingClips); s !=
		"[1 2] 2 []" {
		t.Errorf("the table of embeddings has the texts of later clips %s", s)
	}
	rows[0].LaterEmbeddingClips = nil // as in tables of earlier releases
	rows[2].LaterEmbeddingLengths[0]++
	path := filepath.Join(t.TempDir(), "embeddings.parquet")
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	old, r := step(fmt.Sprintf("{embeddings: %q}", path), "[denoise]", "[latents]")
	var messages []string
	for _, row := range jobtest.ReadRows[schemas.FailureRow](t, old, "failures") {
		messages = append(messages, row.Message)
	}
	slices.Sort(messages)
	if r.Totals.Failed != 2 || len(messages) != 2 || !strings.Contains(messages[0], "texts of later clips: number 2") ||
		!strings.Contains(messages[1], "make the table again with that loop") {
		t.Errorf("%d rows failed: %q", r.Totals.Failed, messages)
	}
}
