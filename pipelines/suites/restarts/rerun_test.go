package restarts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/results/marking"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// TestFinishedJobDoesNothing: a second run of a finished job computes nothing and writes nothing.
func TestFinishedJobDoesNothing(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.RerunTable)
	j.Computes(t, 3) // of two equal rows, one is computed
	rows := jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos")
	if len(rows) != 4 || rows[1].VideoPath != rows[3].VideoPath || rows[1].ID != "x" || rows[3].ID != "y" {
		t.Errorf("the videos table has the rows %+v", rows)
	}
	before := jobtest.Stamps(t, j.Out)
	r := j.MustRun(t)
	if !r.NothingToDo || r.Done != 0 || r.Totals.Done != 4 {
		t.Errorf("the second run: %+v", r)
	}
	if paths := jobtest.Touched(t, j.Out, before); paths != nil {
		t.Errorf("the second run wrote %q", paths)
	}
}

// TestEditedPromptIsComputedAlone: after one prompt was changed, a run computes only its row, and the gallery shows the old row no more.
func TestEditedPromptIsComputedAlone(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.RerunTable)
	j.MustRun(t)
	stale, kept := jobtest.VideoFiles(t, j.Out, "a"), jobtest.VideoFiles(t, j.Out, "b")
	before := jobtest.Stamps(t, j.Out)
	j.Rewrite(t, strings.Replace(jobtest.RerunTable, "red circle", "white circle", 1))
	j.Computes(t, 1)
	if paths := jobtest.Touched(t, j.Out, before, slices.Concat(stale, kept)...); paths != nil {
		t.Errorf("the second run wrote %q", paths)
	}
	page, err := os.ReadFile(filepath.Join(j.Out, "index.html"))
	if err != nil || strings.Contains(string(page), stale[0]) || strings.Contains(string(page), "red circle") {
		t.Errorf("the gallery still shows the old row (%v)", err)
	}
	j.SameAs(t, j.Elsewhere(t), stale...)
}

// TestChangedTables: after a change of the prompt table, the output is equal to that of a new run. Videos of removed rows (stale) stay.
func TestChangedTables(t *testing.T) {
	lines := strings.SplitAfter(jobtest.RerunTable, "\n")
	j := jobtest.NewJob(t, jobtest.RerunTable)
	j.MustRun(t)
	all := jobtest.VideoFiles(t, j.Out, "a")
	for _, c := range []struct {
		name  string
		lines []int
		stale []string
	}{
		{"another order", []int{0, 4, 3, 2, 1}, nil},
		{"a row removed", []int{0, 2, 3, 4}, all},
		{"one of two equal rows removed", []int{0, 1, 2, 3}, nil},
		{"the first table again", []int{0, 1, 2, 3, 4}, nil},
	} {
		var table string
		for _, i := range c.lines {
			table += lines[i]
		}
		j.Rewrite(t, table)
		j.Computes(t, 0)
		t.Run(c.name, func(t *testing.T) { j.SameAs(t, j.Elsewhere(t), c.stale...) })
	}
}

// TestLimitThenAll: a run with a limit computes the first rows, and the next run without it computes the others.
func TestLimitThenAll(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.RerunTable)
	first := j
	first.Opts.Limit = 2
	first.Computes(t, 2)
	if rows := jobtest.ReadRows[schemas.VideoRow](t, j.Out, "videos"); len(rows) != 2 {
		t.Errorf("after a run with limit 2, the table has %d rows", len(rows))
	}
	j.Computes(t, 1)
	j.SameAs(t, j.Elsewhere(t))
}

// TestLimitCountsRows: --limit counts rows, so all videos of a row are computed.
func TestLimitCountsRows(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.RerunTable)
	j.Sets = []string{"defaults.num_videos_per_prompt=3"}
	j.Opts.Limit = 2
	j.Computes(t, 6)
}

// TestAnotherParameterComputesAll: after a change of a parameter that affects all results, a run computes all rows.
func TestAnotherParameterComputesAll(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.RerunTable)
	j.MustRun(t)
	old := jobtest.MustRead(t, j.Out)
	j.Sets = []string{"defaults.guidance_scale=2"}
	j.Computes(t, 3)
	var stale []string
	for name := range old.Files {
		if name != "index.html" && name != "README.md" && name != "croissant.json" && name != "metadata.parquet" && name != marking.Name {
			stale = append(stale, name)
		}
	}
	j.SameAs(t, j.Elsewhere(t), stale...)
}

// TestOtherKindsOfResults: if the job asks for a kind of results that an earlier run did not publish, it is computed. Results that the job
// no longer asks for disappear from the tables, but need not be computed again later.
func TestOtherKindsOfResults(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.RerunTable)
	j.Sets = []string{"output.write=[video]"}
	j.Computes(t, 3)
	all := j
	all.Sets = nil
	all.Computes(t, 3)
	all.SameAs(t, all.Elsewhere(t))
	j.Computes(t, 0)
	j.SameAs(t, j.Elsewhere(t))
	all.Computes(t, 0)
	all.SameAs(t, all.Elsewhere(t))
}

// TestMissingVideoIsMadeAgain: another run computes a missing video.
func TestMissingVideoIsMadeAgain(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.RerunTable)
	j.MustRun(t)
	if err := os.Remove(filepath.Join(j.Out, jobtest.VideoFiles(t, j.Out, "x")[0])); err != nil {
		t.Fatal(err)
	}
	j.Computes(t, 1)
	j.SameAs(t, j.Elsewhere(t))
}

// TestRetry: run does not compute failed rows, and retry computes only failed rows.
func TestRetry(t *testing.T) {
	var broken atomic.Bool
	var seen atomic.Int64
	sick := jobtest.Passive("sick", func(_ context.Context, batch []*stages.Element) error {
		for _, e := range batch {
			seen.Add(1)
			if broken.Load() && strings.Contains(e.Row.Prompt, "square") {
				e.Fail("sick", fault.Row(errors.New("it hurts")))
			}
		}
		return nil
	})
	j := jobtest.NewJob(t, jobtest.RerunTable)
	j.Specs, j.Stages = jobtest.Specs(sick), jobtest.SickAfterFrames
	broken.Store(true)
	run := func(retry bool, done, failed, looked int64) {
		t.Helper()
		seen.Store(0)
		again := j
		again.Opts.Retry = retry
		r := again.MustRun(t)
		if r.Done != done || r.Totals.Failed != failed || seen.Load() != looked {
			t.Errorf("retry %v: %d done, %d failed, %d tried; want %d, %d, %d",
				retry, r.Done, r.Totals.Failed, seen.Load(), done, failed, looked)
		}
	}
	run(false, 2, 2, 3) // both equal rows are failures, tried once
	run(false, 0, 2, 0)
	run(true, 0, 2, 1)
	broken.Store(false)
	run(false, 0, 2, 0)
	run(true, 1, 0, 1)
	run(true, 0, 0, 0)
	run(false, 0, 0, 0)
	j.SameAs(t, j.Elsewhere(t))
}
