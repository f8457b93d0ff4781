package sets

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/pipelines"
	"latentbeam/pipelines/forecast"
	"latentbeam/schemas"
	"latentbeam/stages/cost"
	"latentbeam/testdata/tiny"
)

// TestWeightsForTheLargestRow: weights are arranged for the largest row of the table that can be computed, and not for the
// defaults. A larger row fails, and the results of the others do not change.
func TestWeightsForTheLargestRow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tiny")
	jobtest.Must(t, os.CopyFS(dir, tiny.Files()))
	const small, large, absurd = "small,a red circle moves left,16,16,2\n", "large,a red circle moves left,64,64,16\n",
		"absurd,a red circle moves left,512,512,64\n"
	base := jobtest.NewJob(t, "id,prompt,height,width,num_frames\n"+small+large)
	base.Sets = []string{"model=" + dir}
	base.MustRun(t)
	want := jobtest.MustRead(t, base.Out)
	for _, c := range []struct {
		rows     string
		memory   string
		streamed bool
		failed   int64
	}{
		{small, "18MiB", false, 0},
		{small + large, "18MiB", true, 0},
		{small + large, "64MiB", false, 0},
		{small + large + absurd, "18MiB", true, 1},
		{small + absurd, "18MiB", false, 1},
	} {
		j := jobtest.NewJob(t, "id,prompt,height,width,num_frames\n"+c.rows)
		j.Sets = []string{"model=" + dir, "resources.memory=" + c.memory}
		opened, err := j.Open()
		jobtest.Must(t, err)
		layouts, streamed := arranged(t, opened)
		if streamed != c.streamed {
			t.Errorf("%q in %s: blocks are streamed: %v, want the contrary", c.rows, c.memory, streamed)
		}
		for _, l := range layouts {
			if (l.Fails != nil) != (l.Shape.Width == 512) || l.Fails != nil && !strings.Contains(l.Fails.Error(), "does not fit") {
				t.Errorf("%q in %s: the layout of %v fails: %v", c.rows, c.memory, l.Shape, l.Fails)
			}
		}
		r, err := opened.Run(t.Context(), nil)
		jobtest.Must(t, err)
		opened.Close()
		if r.Totals.Failed != c.failed {
			t.Errorf("%q in %s: got totals %+v", c.rows, c.memory, r.Totals)
		}
		for _, f := range jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures") {
			if f.ID != "absurd" || !strings.Contains(f.Message, "one element needs") ||
				!strings.Contains(f.Message, "a smaller size") {
				t.Errorf("row %s failed: %s", f.ID, f.Message)
			}
		}
		got := jobtest.MustRead(t, j.Out)
		for name, sum := range got.Files {
			if strings.HasPrefix(name, "videos/") && want.Files[name] != sum {
				t.Errorf("%q in %s: the file %s differs", c.rows, c.memory, name)
			}
		}
	}
}

// arranged returns the layouts that a job plans, and whether the first one streams weights.
func arranged(t *testing.T, opened *pipelines.Job) (layouts []forecast.BucketPlan, streamed bool) {
	t.Helper()
	p, err := opened.Plan(t.Context())
	jobtest.Must(t, err)
	predicted, err := opened.Forecast().Predict(t.Context(), p.Work, true)
	jobtest.Must(t, err)
	layouts = predicted.Layouts
	return layouts, slices.ContainsFunc(layouts[0].Placements, func(h cost.Placement) bool { return h.Streamed })
}

// TestDevicesOfUnequalThreads: a plan for workers with different numbers of threads knows the same devices as the run.
func TestDevicesOfUnequalThreads(t *testing.T) {
	j := jobtest.NewJob(t, "prompt\na\n")
	j.Sets = []string{"resources.workers=3", "resources.threads=5"}
	opened, err := j.Open()
	jobtest.Must(t, err)
	defer opened.Close()
	d, err := opened.Forecast().Devices(forecast.Work{})
	jobtest.Must(t, err)
	if len(d) != 3 || d[0].Rate <= 0 || d[1].Rate != d[0].Rate || 2*d[2].Rate != d[0].Rate {
		t.Errorf("the plan has the devices %+v", d)
	}
}
