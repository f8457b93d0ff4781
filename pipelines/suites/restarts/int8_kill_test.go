package restarts

import (
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
)

// TestKilledInInt8: a row in int8 is killed after some steps. It resumes after these steps on another set of workers, with an equal
// result.
func TestKilledInInt8(t *testing.T) {
	testaid.Long(t, "kills processes")
	whole := &crashJob{Life: jobtest.Life{Prompts: jobtest.WriteTable(t, "prompts.csv", stepsTable), Sets: stepsSets,
		Stages: "[pause, encode_text: {precision: int8}, denoise: {precision: int8}, decode_vae, encode_video]"}}
	whole.Out = whole.fresh(t)
	jobtest.Must(t, func() error { _, err := whole.Job().Run(); return err }())
	want := jobtest.MustRead(t, whole.Out)
	for i, step := range []int{1, 20, 49} {
		l := whole.at(fault.StepsKept, step)
		l.Out = whole.fresh(t)
		cmd, text := l.Start(t)
		if err := cmd.Wait(); !jobtest.Killed(err) {
			t.Fatalf("the run was not killed after step %d: %v: %s", step, err, text)
		}
		left := l.Job()
		left.Sets = append(slices.Clone(stepsSets), [][]string{nil, {"resources.workers=3", "stages.denoise.sequence_parallel=3"},
			{"resources.workers=2", "stages.denoise.tp_size=2"}}[i]...)
		left.MustRun(t)
		if wrong := want.Diff(jobtest.MustRead(t, l.Out)); wrong != nil || steps(t, l.Out) != step {
			t.Errorf("killed after step %d: %d steps were skipped\n%s", step, steps(t, l.Out), strings.Join(wrong, "\n"))
		}
	}
}
