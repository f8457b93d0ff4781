package restarts

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// TestOutputRemovedUnderARun: if the output is removed during a run, the run ends with one error that says what to do, and the next
// run starts from the beginning.
func TestOutputRemovedUnderARun(t *testing.T) {
	t.Run("removed", func(t *testing.T) { underARun(t, os.RemoveAll) })
	t.Run("moved", func(t *testing.T) {
		underARun(t, func(out string) error { return os.Rename(out, out+"-moved") })
	})
}

// underARun removes the output of a job while it runs.
func underARun(t *testing.T, away func(out string) error) {
	j := jobtest.NewJob(t, strings.ReplaceAll(jobtest.ManyRows(3), "poison", "fine"))
	first := true
	j.Specs = jobtest.Specs(jobtest.Passive("remove", func(context.Context, []*stages.Element) error {
		if first {
			first = false
			return away(j.Out)
		}
		return nil
	}))
	j.Stages, j.Sets = "[encode_text, denoise, remove, decode_vae, encode_video]", []string{"resources.batch_size=1"}
	_, err := j.Run()
	if !errors.Is(err, store.ErrRemoved) || fault.ExitCode(err) != fault.ExitFatal || strings.Contains(err.Error(), "\n") {
		t.Errorf("got error %v, exit code %d", err, fault.ExitCode(err))
	}
	if r := j.MustRun(t); r.Done != 3 {
		t.Errorf("the next run: %+v", r)
	}
}
