package pipelines_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// TestOutputRemovedUnderARun: the run ends with one error that says so and what to do, and the next one begins anew.
func TestOutputRemovedUnderARun(t *testing.T) {
	t.Run("removed", func(t *testing.T) { underARun(t, os.RemoveAll) })
	t.Run("moved", func(t *testing.T) {
		underARun(t, func(out string) error { return os.Rename(out, out+"-moved") })
	})
}

// underARun takes the output of a job away while it runs.
func underARun(t *testing.T, away func(out string) error) {
	j := newJob(t, strings.ReplaceAll(manyRows(3), "poison", "fine"))
	first := true
	j.specs = specs(passive("remove", func(context.Context, []*stages.Element) error {
		if first {
			first = false
			return away(j.out)
		}
		return nil
	}))
	j.stages, j.sets = "[encode_text, denoise, remove, decode_vae, encode_video]", []string{"resources.batch_size=1"}
	_, err := j.run()
	if !errors.Is(err, store.ErrRemoved) || fault.ExitCode(err) != fault.ExitFatal || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, exit %d", err, fault.ExitCode(err))
	}
	if r := j.mustRun(t); r.Done != 3 {
		t.Errorf("%+v", r)
	}
}
