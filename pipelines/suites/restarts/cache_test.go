package restarts

import (
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
)

// TestKilledWithCache: a row whose cache lets it skip evaluations of the denoiser is killed after some steps. It resumes after these steps on another set of workers,
// with an equal result and an equal number of evaluations.
func TestKilledWithCache(t *testing.T) {
	testaid.Long(t, "kills processes")
	ways := [][]string{{"resources.workers=3", "stages.denoise.sequence_parallel=3"}, {"resources.workers=2", "stages.denoise.pp_size=2"},
		{"resources.workers=2", "stages.denoise.tp_size=2"}}
	for name, options := range map[string]string{
		"easycache":         "cache: {name: easycache, threshold: 0.2, warmup: 5}",
		"guidance_interval": "guidance_interval: [0.1, 0.6]",
		"all with int8":     "cache: {name: easycache, threshold: 0.2, warmup: 5}, guidance_interval: [0.1, 0.6], precision: int8",
	} {
		t.Run(name, func(t *testing.T) {
			whole := &crashJob{Life: jobtest.Life{Prompts: jobtest.WriteTable(t, "prompts.csv", stepsTable), Sets: stepsSets,
				Stages: "[pause, encode_text, denoise: {" + options + "}, decode_vae, encode_video]"}}
			whole.Out = whole.fresh(t)
			jobtest.Must(t, func() error { _, err := whole.Job().Run(); return err }())
			want := jobtest.MustRead(t, whole.Out)
			for i, step := range []int{20, 30, 49} {
				l := whole.at(fault.StepsKept, step)
				l.Out = whole.fresh(t)
				cmd, text := l.Start(t)
				if err := cmd.Wait(); !jobtest.Killed(err) {
					t.Fatalf("the run was not killed after step %d: %v: %s", step, err, text)
				}
				left := l.Job()
				left.Sets = append(slices.Clone(stepsSets), ways[i]...)
				left.MustRun(t)
				if wrong := want.Diff(jobtest.MustRead(t, l.Out)); wrong != nil || steps(t, l.Out) != step {
					t.Errorf("killed after step %d, resumed with %v: %d steps skipped\n%s", step, ways[i], steps(t, l.Out), strings.Join(wrong, "\n"))
				}
			}
		})
	}
}
