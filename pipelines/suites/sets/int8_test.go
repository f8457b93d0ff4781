package sets

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/internal/dev/jobtest"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
	"latentbeam/testdata/tiny"
)

// int8Stages lists the stages of a text-to-video job with int8 matrix products.
const int8Stages = "[encode_text: {precision: int8}, denoise: {precision: int8}, decode_vae, guard, encode_video]"

// TestSameBytesInInt8: the output of a job in int8 does not depend on batches, sets, divided weights and restarts. It differs from the
// output in fp32.
func TestSameBytesInInt8(t *testing.T) {
	if testing.Short() {
		t.Skip("whole jobs: run make check")
	}
	exact := jobtest.NewJob(t, jobtest.SetTable)
	exact.MustRun(t)
	base := exact.Elsewhere(t)
	base.Stages = int8Stages
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	if want.Diff(jobtest.MustRead(t, exact.Out)) == nil {
		t.Error("the output in int8 is equal to the one in fp32")
	}
	for _, c := range []struct {
		sets  string
		first int // rows before the restart
	}{
		{"resources.batch_size=1 resources.threads=1", 0},
		{"resources.workers=3 stages.denoise.sequence_parallel=3", 1},
		{"resources.workers=3 stages.denoise.tp_size=3 stages.encode_text.tp_size=2", 0},
		{"resources.workers=4 stages.denoise.pp_size=2 stages.denoise.tp_size=2 stages.encode_text.pp_size=2", 2},
	} {
		j := base.Elsewhere(t)
		j.Sets = strings.Fields(c.sets)
		if j.Opts.Limit = c.first; c.first > 0 {
			j.MustRun(t)
		}
		j.Opts.Limit = 0
		j.MustRun(t)
		if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
			t.Errorf("%s: the output differs:\n%s", c.sets, strings.Join(wrong, "\n"))
		}
	}
}

// TestSameBytesInInt8Streamed: streamed blocks are rounded each time they are loaded, with equal results.
func TestSameBytesInInt8Streamed(t *testing.T) {
	if testing.Short() {
		t.Skip("whole jobs: run make check")
	}
	dir := filepath.Join(t.TempDir(), "tiny")
	jobtest.Must(t, os.CopyFS(dir, tiny.Files()))
	base := jobtest.NewJob(t, "id,prompt\na,a red circle moves left\n")
	base.Stages = int8Stages
	base.Sets = []string{"model=" + dir, "defaults.height=96", "defaults.width=96", "defaults.num_frames=16"}
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	for memory := 30 << 10; ; memory -= 512 { // KiB; with one of these amounts, blocks are streamed
		j := base.Elsewhere(t)
		j.Sets = append(slices.Clone(base.Sets), fmt.Sprintf("resources.memory=%dKiB", memory))
		opened, err := j.Open()
		jobtest.Must(t, err) // too little
		if _, streamed := arranged(t, opened); !streamed {
			opened.Close()
			continue
		}
		_, err = opened.Run(t.Context(), nil)
		jobtest.Must(t, err)
		opened.Close()
		if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
			t.Errorf("streamed with %d KiB, the output differs:\n%s", memory, strings.Join(wrong, "\n"))
		}
		t.Logf("streamed with %d KiB", memory)
		return
	}
}

// TestImpossiblePrecisions: a precision that a stage does not have is an error with the line of its option.
func TestImpossiblePrecisions(t *testing.T) {
	for _, stages := range []string{"[encode_text: {precision: int4}, denoise]", "[encode_text, denoise: {precision: fp8}]"} {
		j := jobtest.NewJob(t, "id,prompt\na,a red circle\n")
		j.Stages = strings.TrimSuffix(stages, "]") + ", decode_vae, encode_video]"
		if _, err := j.Run(); err == nil || !strings.Contains(err.Error(), "precision is") || !strings.Contains(err.Error(), "give int8") {
			t.Errorf("%s: got error %v", stages, err)
		}
	}
}

// TestInt8NeedsProcessors: a device without int8 products is an error that says what to do.
func TestInt8NeedsProcessors(t *testing.T) {
	model, err := stages.EmbeddedModel("tiny", tiny.Files())
	jobtest.Must(t, err)
	guidance, seed := 4.0, int64(1)
	row := schemas.PromptRow{Prompt: "a red circle", MaxSequenceLength: 16, Height: 16, Width: 16, NumFrames: 2, FPS: 8,
		NumInferenceSteps: 2, GuidanceScale: &guidance, Seed: &seed}
	text := &stages.Element{Row: row}
	for _, name := range []string{"encode_text", "denoise"} {
		options, err := config.ParseOptions(name, "precision: int8")
		jobtest.Must(t, err)
		spec, _ := stages.Find(catalog.All(), name)
		stage, err := spec.New(model, options.Decode)
		jobtest.Must(t, err)
		e := &stages.Element{Row: row, Text: text.Text}
		err = stage.Run(t.Context(), newCards(1, 1<<40).free[0], []*stages.Element{e})
		if err == nil || !strings.Contains(err.Error(), "precision: int8 is supported only on processors, and card 0 is not a processor: leave precision out") ||
			fault.ExitCode(err) != fault.ExitUsage {
			t.Errorf("%s on a device without int8 products: got error %v", name, err)
		}
		e = &stages.Element{Row: row, Text: text.Text}
		jobtest.Must(t, stage.Run(t.Context(), cpu.New(1), []*stages.Element{e}))
		text = e
	}
}
