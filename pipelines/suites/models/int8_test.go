package models

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
)

// TestWanInInt8: the int8 output of Wan, with one denoiser and with two, and of UMT5 does not depend on batches, sets, the division of
// weights and hosts, like that of the built-in model.
func TestWanInInt8(t *testing.T) {
	if testing.Short() {
		t.Skip("whole jobs: run make check")
	}
	token := jobtest.TokenFile(t, jobtest.WorkerToken)
	host, _ := jobtest.StartWorker(t, token, 2, nil)
	for _, kind := range []string{"unipc", "experts"} {
		t.Run(kind, func(t *testing.T) {
			c := wanCasesOf(t, "wan-pipelines.json")[kind]
			dir, table := wanDir(t, c), wanRows(t, c)
			run := func(sets ...string) jobtest.Output {
				t.Helper()
				out := filepath.Join(t.TempDir(), "out")
				r, err := runYAML(t, fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q, "+
					"write: [video, latents, embeddings]}\ndefaults: {num_inference_steps: 2}\n", dir, table, out), sets)
				if err != nil || r.Done != 4 || r.Totals.Failed > 0 {
					t.Fatalf("%v: got %+v, %v", sets, r.Totals, err)
				}
				return jobtest.MustRead(t, out)
			}
			int8 := []string{"stages.encode_text.precision=int8", "stages.denoise.precision=int8"}
			want := run(int8...)
			if want.Diff(run()) == nil {
				t.Error("the output in int8 is equal to the one in fp32")
			}
			for _, variant := range []string{
				"resources.batch_size=1 resources.threads=1",
				"resources.workers=3 stages.denoise.sequence_parallel=3 resources.batch_size=2",
				"resources.workers=4 stages.denoise.tp_size=2 stages.denoise.sequence_parallel=2 stages.encode_text.tp_size=2",
				fmt.Sprintf("resources.workers=1 stages.denoise.sequence_parallel=3 resources.threads=1 resources.hosts=[%q] resources.token_file=%q", host, token),
			} {
				for _, wrong := range want.Diff(run(append(slices.Clone(int8), strings.Fields(variant)...)...)) {
					t.Errorf("%s: the output differs: %s", variant, wrong)
				}
			}
		})
	}
}

// TestPlanInInt8 is TestWanInInt8 for both versions of Open-Sora-Plan and for mT5.
func TestPlanInInt8(t *testing.T) {
	if testing.Short() {
		t.Skip("whole jobs: run make check")
	}
	table := jobtest.WriteTable(t, "prompts.csv", "prompt,seed\na red ball,1\na cat,2\na blue square moves left,3\n")
	for version, dir := range map[string]string{"1.2": planDir(t, planNet12, planVAE12), "1.3": planDir(t, planNet13, planVAE13)} {
		t.Run(version, func(t *testing.T) {
			run := func(sets ...string) jobtest.Output {
				t.Helper()
				out := filepath.Join(t.TempDir(), "out")
				r, err := runYAML(t, fmt.Sprintf("version: 1\nmodel: %q\ninput: {prompts: %q}\noutput: {path: %q, "+
					"write: [video, latents, embeddings]}\ndefaults: {num_inference_steps: 2}\n", dir, table, out), sets)
				if err != nil || r.Done != 3 || r.Totals.Failed > 0 {
					t.Fatalf("%v: got %+v, %v", sets, r.Totals, err)
				}
				return jobtest.MustRead(t, out)
			}
			exact := run()
			for _, stage := range []string{"encode_text", "denoise"} {
				if run("stages."+stage+".precision=int8").Diff(exact) == nil {
					t.Errorf("the output of %s in int8 is equal to the one in fp32", stage)
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
				for _, wrong := range want.Diff(run(append(slices.Clone(int8), strings.Fields(variant)...)...)) {
					t.Errorf("%s: the output differs: %s", variant, wrong)
				}
			}
		})
	}
}
