package pipelines_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"latentbeam/internal/results/marking"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// rerunTable has two equal rows, x and y, under ids of their own.
const rerunTable = `id,prompt,seed
a,a red circle moves left,
x,a blue square moves up,7
b,a green triangle stays still,
y,a blue square moves up,7
`

// newJob is a job on a new table and a new output.
func newJob(t *testing.T, table string) job {
	t.Helper()
	return job{prompts: writeTable(t, "prompts.csv", table), out: filepath.Join(t.TempDir(), "out")}
}

// rewrite replaces the prompt table of the job.
func (j job) rewrite(t *testing.T, table string) {
	t.Helper()
	if err := os.WriteFile(j.prompts, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
}

// computes runs the job, which must compute exactly so many elements.
func (j job) computes(t *testing.T, want int64) {
	t.Helper()
	if r := j.mustRun(t); r.Done != want || r.Totals.Pending != 0 {
		t.Errorf("%d elements computed, want %d; %d pending", r.Done, want, r.Totals.Pending)
	}
}

// sameAs checks that the output equals a run of the job into a new output, except for files of rows no longer in the
// input. Those must still be there.
func (j job) sameAs(t *testing.T, fresh job, stale ...string) {
	t.Helper()
	fresh.mustRun(t)
	wrong := mustRead(t, fresh.out).diff(mustRead(t, j.out))
	var left []string
	for _, name := range stale {
		left = append(left, "left over "+name)
	}
	slices.Sort(left)
	if !slices.Equal(wrong, left) {
		t.Errorf("differs from a new run:\n%s", strings.Join(wrong, "\n"))
	}
}

// elsewhere is the same job with another output of the same name.
func (j job) elsewhere(t *testing.T) job {
	t.Helper()
	j.out = filepath.Join(t.TempDir(), filepath.Base(j.out))
	return j
}

// videoFiles names the files of the row of that id.
func videoFiles(t *testing.T, dir, id string) []string {
	t.Helper()
	for _, r := range readRows[schemas.VideoRow](t, dir, "videos") {
		if r.ID == id {
			return []string{r.VideoPath, r.Poster}
		}
	}
	t.Fatalf("no row of id %q in the table of videos", id)
	return nil
}

// stamps describes every file under dir but the lock, which says who runs.
func stamps(t *testing.T, dir string) map[string]fs.FileInfo {
	t.Helper()
	all := map[string]fs.FileInfo{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) == ".lock" {
			return err
		}
		all[path], err = d.Info()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// touched lists which of the files, all where none is named, were written since stamps were taken.
func touched(t *testing.T, dir string, before map[string]fs.FileInfo, names ...string) (paths []string) {
	t.Helper()
	after := stamps(t, dir)
	for path, was := range before {
		is := after[path]
		name, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		if len(names) > 0 && !slices.Contains(names, filepath.ToSlash(name)) {
			continue
		}
		if is == nil || !os.SameFile(was, is) || !was.ModTime().Equal(is.ModTime()) || was.Size() != is.Size() {
			paths = append(paths, path)
		}
	}
	if len(after) != len(before) && len(names) == 0 {
		paths = append(paths, fmt.Sprintf("%d files and directories, there were %d", len(after), len(before)))
	}
	return paths
}

func TestFinishedJobDoesNothing(t *testing.T) {
	j := newJob(t, rerunTable)
	j.computes(t, 3) // the equal rows once
	rows := readRows[schemas.VideoRow](t, j.out, "videos")
	if len(rows) != 4 || rows[1].VideoPath != rows[3].VideoPath || rows[1].ID != "x" || rows[3].ID != "y" {
		t.Errorf("rows of the videos table: %+v", rows)
	}
	before := stamps(t, j.out)
	r := j.mustRun(t)
	if !r.NothingToDo || r.Done != 0 || r.Totals.Done != 4 {
		t.Errorf("second run: %+v", r)
	}
	if paths := touched(t, j.out, before); paths != nil {
		t.Errorf("the second run wrote %q", paths)
	}
}

func TestEditedPromptIsComputedAlone(t *testing.T) {
	j := newJob(t, rerunTable)
	j.mustRun(t)
	stale, kept := videoFiles(t, j.out, "a"), videoFiles(t, j.out, "b")
	before := stamps(t, j.out)
	j.rewrite(t, strings.Replace(rerunTable, "red circle", "white circle", 1))
	j.computes(t, 1)
	if paths := touched(t, j.out, before, slices.Concat(stale, kept)...); paths != nil {
		t.Errorf("the second run wrote %q", paths)
	}
	page, err := os.ReadFile(filepath.Join(j.out, "index.html"))
	if err != nil || strings.Contains(string(page), stale[0]) || strings.Contains(string(page), "red circle") {
		t.Errorf("the gallery still shows the old row (%v)", err)
	}
	j.sameAs(t, j.elsewhere(t), stale...)
}

func TestChangedTables(t *testing.T) {
	lines := strings.SplitAfter(rerunTable, "\n")
	j := newJob(t, rerunTable)
	j.mustRun(t)
	all := videoFiles(t, j.out, "a")
	for _, c := range []struct {
		name  string
		lines []int
		stale []string
	}{
		{"another order", []int{0, 4, 3, 2, 1}, nil},
		{"a row removed", []int{0, 2, 3, 4}, all},
		{"one of two equal rows removed", []int{0, 1, 2, 3}, nil},
		{"as it was", []int{0, 1, 2, 3, 4}, nil},
	} {
		var table string
		for _, i := range c.lines {
			table += lines[i]
		}
		j.rewrite(t, table)
		j.computes(t, 0)
		t.Run(c.name, func(t *testing.T) { j.sameAs(t, j.elsewhere(t), c.stale...) })
	}
}

func TestLimitThenAll(t *testing.T) {
	j := newJob(t, rerunTable)
	first := j
	first.opts.Limit = 2
	first.computes(t, 2)
	if rows := readRows[schemas.VideoRow](t, j.out, "videos"); len(rows) != 2 {
		t.Errorf("%d rows of the first two", len(rows))
	}
	j.computes(t, 1)
	j.sameAs(t, j.elsewhere(t))
}

// TestLimitCountsRows: a row with several videos is not cut in the middle.
func TestLimitCountsRows(t *testing.T) {
	j := newJob(t, rerunTable)
	j.sets = []string{"defaults.num_videos_per_prompt=3"}
	j.opts.Limit = 2
	j.computes(t, 6)
}

func TestAnotherParameterComputesAll(t *testing.T) {
	j := newJob(t, rerunTable)
	j.mustRun(t)
	old := mustRead(t, j.out)
	j.sets = []string{"defaults.guidance_scale=2"}
	j.computes(t, 3)
	var stale []string
	for name := range old.files {
		if name != "index.html" && name != "README.md" && name != "croissant.json" && name != "metadata.parquet" && name != marking.Name {
			stale = append(stale, name)
		}
	}
	j.sameAs(t, j.elsewhere(t), stale...)
}

// TestMoreIsWritten: what an earlier run did not keep is computed when it is asked for, and what is no
// longer asked for leaves the tables but need not be computed again.
func TestMoreIsWritten(t *testing.T) {
	j := newJob(t, rerunTable)
	j.sets = []string{"output.write=[video]"}
	j.computes(t, 3)
	all := j
	all.sets = nil
	all.computes(t, 3)
	all.sameAs(t, all.elsewhere(t))
	j.computes(t, 0)
	j.sameAs(t, j.elsewhere(t))
	all.computes(t, 0)
	all.sameAs(t, all.elsewhere(t))
}

// TestMissingVideoIsMadeAgain: run again, and what is missing is done.
func TestMissingVideoIsMadeAgain(t *testing.T) {
	j := newJob(t, rerunTable)
	j.mustRun(t)
	if err := os.Remove(filepath.Join(j.out, videoFiles(t, j.out, "x")[0])); err != nil {
		t.Fatal(err)
	}
	j.computes(t, 1)
	j.sameAs(t, j.elsewhere(t))
}

// TestRetry: run leaves failed rows alone, retry tries them and nothing else.
func TestRetry(t *testing.T) {
	var broken atomic.Bool
	var seen atomic.Int64
	sick := passive("sick", func(_ context.Context, batch []*stages.Element) error {
		for _, e := range batch {
			seen.Add(1)
			if broken.Load() && strings.Contains(e.Row.Prompt, "square") {
				e.Fail("sick", fault.Row(errors.New("it hurts")))
			}
		}
		return nil
	})
	j := newJob(t, rerunTable)
	j.specs, j.stages = specs(sick), afterFrames
	broken.Store(true)
	run := func(retry bool, done, failed, looked int64) {
		t.Helper()
		seen.Store(0)
		again := j
		again.opts.Retry = retry
		r := again.mustRun(t)
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
	j.sameAs(t, j.elsewhere(t))
}
