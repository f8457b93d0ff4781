package pipelines_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/internal/system/testaid"
	"latentbeam/kernels/cpu"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
	"latentbeam/testdata/tiny"
)

// int8Stages are those of a text-to-video job with products of numbers of 8 bits.
const int8Stages = "[encode_text: {precision: int8}, denoise: {precision: int8}, decode_vae, guard, encode_video]"

// TestSameBytesInInt8: batches, sets, cut weights and restarts do not show in the output of a job in int8, which is
// another one than that of fp32.
func TestSameBytesInInt8(t *testing.T) {
	if testing.Short() {
		t.Skip("whole jobs: run make check")
	}
	exact := newJob(t, setTable)
	exact.mustRun(t)
	base := exact.elsewhere(t)
	base.stages = int8Stages
	base.mustRun(t)
	want := mustRead(t, base.out)
	if want.diff(mustRead(t, exact.out)) == nil {
		t.Error("int8 changed nothing")
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
		j := base.elsewhere(t)
		j.sets = strings.Fields(c.sets)
		if j.opts.Limit = c.first; c.first > 0 {
			j.mustRun(t)
		}
		j.opts.Limit = 0
		j.mustRun(t)
		if wrong := want.diff(mustRead(t, j.out)); wrong != nil {
			t.Errorf("%s:\n%s", c.sets, strings.Join(wrong, "\n"))
		}
	}
}

// TestSameBytesInInt8Streamed: blocks that pass through memory are rounded anew each time, to the same numbers.
func TestSameBytesInInt8Streamed(t *testing.T) {
	if testing.Short() {
		t.Skip("whole jobs: run make check")
	}
	dir := filepath.Join(t.TempDir(), "tiny")
	must(t, os.CopyFS(dir, tiny.Files()))
	base := newJob(t, "id,prompt\na,a red circle moves left\n")
	base.stages = int8Stages
	base.sets = []string{"model=" + dir, "defaults.height=96", "defaults.width=96", "defaults.num_frames=16"}
	base.mustRun(t)
	want := mustRead(t, base.out)
	for memory := 30 << 10; ; memory -= 512 { // KiB; there is some amount with which blocks pass
		j := base.elsewhere(t)
		j.sets = append(slices.Clone(base.sets), fmt.Sprintf("resources.memory=%dKiB", memory))
		opened, err := j.open()
		must(t, err) // too little
		if _, streamed := arranged(t, opened); !streamed {
			opened.Close()
			continue
		}
		_, err = opened.Run(t.Context(), nil)
		must(t, err)
		opened.Close()
		if wrong := want.diff(mustRead(t, j.out)); wrong != nil {
			t.Errorf("%d KiB:\n%s", memory, strings.Join(wrong, "\n"))
		}
		t.Logf("streamed with %d KiB", memory)
		return
	}
}

// TestPrecisionsThatCannotBe are refused with the line of their option.
func TestPrecisionsThatCannotBe(t *testing.T) {
	for _, stages := range []string{"[encode_text: {precision: int4}, denoise]", "[encode_text, denoise: {precision: fp8}]"} {
		j := newJob(t, "id,prompt\na,a red circle\n")
		j.stages = strings.TrimSuffix(stages, "]") + ", decode_vae, encode_video]"
		if _, err := j.run(); err == nil || !strings.Contains(err.Error(), "precision is") || !strings.Contains(err.Error(), "give int8") {
			t.Errorf("%s: %v", stages, err)
		}
	}
}

// TestWanInInt8: what is true of the built-in model in int8 is true of Wan, with one denoiser and with two, and of UMT5: neither batches
// nor sets nor cut weights show in a byte, on other hosts too.
func TestWanInInt8(t *testing.T) {
	if testing.Short() {
		t.Skip("whole jobs: run make check")
	}
	token := tokenFile(t, workerToken)
	host, _ := startWorker(t, token, 2, nil)
	for _, kind := range []string{"unipc", "experts"} {
		t.Run(kind, func(t *testing.T) {
			c := wanCasesOf(t, "wan-pipelines.json")[kind]
			dir, table := wanDir(t, c), wanRows(t, c)
			run := func(sets ...string) output {
				t.Helper()
				out := filepath.Join(t.TempDir(), "out")
				r, err := runYAML(t, fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q, "+
					"write: [video, latents, embeddings]}\ndefaults: {num_inference_steps: 2}\n", dir, table, out), sets)
				if err != nil || r.Done != 4 || r.Totals.Failed > 0 {
					t.Fatalf("%v: %+v, %v", sets, r.Totals, err)
				}
				return mustRead(t, out)
			}
			int8 := []string{"stages.encode_text.precision=int8", "stages.denoise.precision=int8"}
			want := run(int8...)
			if want.diff(run()) == nil {
				t.Error("int8 changed nothing")
			}
			for _, variant := range []string{
				"resources.batch_size=1 resources.threads=1",
				"resources.workers=3 stages.denoise.sequence_parallel=3 resources.batch_size=2",
				"resources.workers=4 stages.denoise.tp_size=2 stages.denoise.sequence_parallel=2 stages.encode_text.tp_size=2",
				fmt.Sprintf("resources.workers=1 stages.denoise.sequence_parallel=3 resources.threads=1 resources.hosts=[%q] resources.token_file=%q", host, token),
			} {
				for _, wrong := range want.diff(run(append(slices.Clone(int8), strings.Fields(variant)...)...)) {
					t.Errorf("%s: %s", variant, wrong)
				}
			}
		})
	}
}

// TestPlanInInt8: the same is true of both versions of Open-Sora-Plan and mT5.
func TestPlanInInt8(t *testing.T) {
	if testing.Short() {
		t.Skip("whole jobs: run make check")
	}
	table := writeTable(t, "prompts.csv", "prompt,seed\na red ball,1\na cat,2\na blue square moves left,3\n")
	for version, dir := range map[string]string{"1.2": planDir(t, planNet12, planVAE12), "1.3": planDir(t, planNet13, planVAE13)} {
		t.Run(version, func(t *testing.T) {
			run := func(sets ...string) output {
				t.Helper()
				out := filepath.Join(t.TempDir(), "out")
				r, err := runYAML(t, fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q, "+
					"write: [video, latents, embeddings]}\ndefaults: {num_inference_steps: 2}\n", dir, table, out), sets)
				if err != nil || r.Done != 3 || r.Totals.Failed > 0 {
					t.Fatalf("%v: %+v, %v", sets, r.Totals, err)
				}
				return mustRead(t, out)
			}
			exact := run()
			for _, stage := range []string{"encode_text", "denoise"} {
				if run("stages."+stage+".precision=int8").diff(exact) == nil {
					t.Errorf("int8 changed nothing in %s", stage)
				}
			}
			int8 := []string{"stages.encode_text.precision=int8", "stages.denoise.precision=int8"}
			want := run(int8...)
			for _, variant := range []string{
				"resources.batch_size=1 resources.threads=1",
				"resources.workers=3 stages.denoise.sequence_parallel=3 resources.batch_size=2",
				"resources.workers=3 stages.denoise.tp_size=3 stages.encode_text.tp_size=2",
				"resources.workers=4 stages.denoise.pp_size=2 stages.denoise.sequence_parallel=2 stages.encode_text.pp_size=2",
			} {
				for _, wrong := range want.diff(run(append(slices.Clone(int8), strings.Fields(variant)...)...)) {
					t.Errorf("%s: %s", variant, wrong)
				}
			}
		})
	}
}

// TestInt8NeedsProcessors: a device that does not compute products of numbers of 8 bits is told apart, with what to do.
func TestInt8NeedsProcessors(t *testing.T) {
	model, err := stages.EmbeddedModel("tiny", tiny.Files())
	must(t, err)
	guidance, seed := 4.0, int64(1)
	row := schemas.PromptRow{Prompt: "a red circle", MaxSequenceLength: 16, Height: 16, Width: 16, NumFrames: 2, FPS: 8,
		NumInferenceSteps: 2, GuidanceScale: &guidance, Seed: &seed}
	text := &stages.Element{Row: row}
	for _, name := range []string{"encode_text", "denoise"} {
		options, err := config.ParseOptions(name, "precision: int8")
		must(t, err)
		spec, _ := stages.Find(catalog.All(), name)
		stage, err := spec.New(model, options.Decode)
		must(t, err)
		e := &stages.Element{Row: row, Text: text.Text}
		err = stage.Run(t.Context(), newCards(1, 1<<40).free[0], []*stages.Element{e})
		if err == nil || !strings.Contains(err.Error(), "precision: int8 is computed by processors, and card 0 is none: leave precision out") ||
			fault.ExitCode(err) != fault.ExitUsage {
			t.Errorf("%s on a device without products of 8 bits: %v", name, err)
		}
		e = &stages.Element{Row: row, Text: text.Text}
		must(t, stage.Run(t.Context(), cpu.New(1), []*stages.Element{e}))
		text = e
	}
}

// TestKilledInInt8: a row in int8 that is killed behind some steps goes on there, on another set of workers, to the same bytes.
func TestKilledInInt8(t *testing.T) {
	testaid.Long(t, "kills processes")
	whole := &crashJob{life: life{Prompts: writeTable(t, "prompts.csv", stepsTable), Sets: stepsSets,
		Stages: "[pause, encode_text: {precision: int8}, denoise: {precision: int8}, decode_vae, encode_video]"}}
	whole.Out = whole.fresh(t)
	must(t, func() error { _, err := whole.job().run(); return err }())
	want := mustRead(t, whole.Out)
	for i, step := range []int{1, 20, 49} {
		l := whole.at(fault.StepsKept, step)
		l.Out = whole.fresh(t)
		cmd, text := l.start(t)
		if err := cmd.Wait(); !killed(err) {
			t.Fatalf("the run was not killed behind step %d: %v: %s", step, err, text)
		}
		left := l.job()
		left.sets = append(slices.Clone(stepsSets), [][]string{nil, {"resources.workers=3", "stages.denoise.sequence_parallel=3"},
			{"resources.workers=2", "stages.denoise.tp_size=2"}}[i]...)
		left.mustRun(t)
		if wrong := want.diff(mustRead(t, l.Out)); wrong != nil || steps(t, l.Out) != step {
			t.Errorf("killed behind step %d: %d steps skipped\n%s", step, steps(t, l.Out), strings.Join(wrong, "\n"))
		}
	}
}
