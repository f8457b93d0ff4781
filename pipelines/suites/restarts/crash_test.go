//go:build unix

package restarts

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/results/report"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
)

// crashTable has all kinds of rows: several shapes, an image, an empty prompt, two equal rows, an unreadable row
// and, at the end, a row that waits. So the rows before it are published as a separate group.
const crashTable = `id,prompt,seed,width,num_frames
a,a red circle moves left,1,,
b,a blue square moves up,,,
c,a green triangle stays still,,32,
d,a red circle moves left,1,,
e,,,,
f,a red circle,NaN,,
g,a yellow square moves down,,,1
h,a red circle moves left,2,,
i,a blue circle moves right,,,
j,a white square moves right,,,
k,please wait,,,
`

// crashSets cause many small batches, so that the first ones are published before the last ones are computed.
var crashSets = []string{
	"resources.batch_size=1", "defaults.num_videos_per_prompt=2", "defaults.guidance_scale=1",
}

// crashPause is the time that the last row waits. It is longer than the delay of a group commit.
const crashPause = 1300 * time.Millisecond

// crashJob is the job that a crash test kills repeatedly.
type crashJob struct {
	jobtest.Life                // without a kill
	old          string         // output with which every process starts; "": none
	want         jobtest.Output // output of an undisturbed run
}

// TestKillAndResume kills the job at every step of publishing and of the report, and at random
// times. All visible files are complete then, and after the next run the output is equal to that of an undisturbed run.
// LATENTBEAM_POINT_KILLS is the number of kills at most steps.
func TestKillAndResume(t *testing.T) {
	testaid.Long(t, "kills some 35 processes")
	times := testaid.Count(t, "LATENTBEAM_POINT_KILLS", 1)
	fresh := &crashJob{Life: jobtest.Life{Prompts: jobtest.WriteTable(t, "prompts.csv", crashTable), Pause: crashPause,
		Sets: crashSets}}
	hits := fresh.prepare(t)
	var kills []jobtest.Life
	for _, point := range fault.Names() {
		if point == fault.StepsKept { // TestKillAtEveryStep
			continue
		}
		if hits[point] == 0 {
			t.Errorf("the job has never reached the fault point %s", point)
		}
		most := times
		if point == fault.StoreReplaceRenamed { // it is hit once for each file of the report
			most = hits[point]
		}
		for _, hit := range spread(hits[point], most) {
			kills = append(kills, fresh.at(point, hit))
		}
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	for range 3 * times {
		kills = append(kills, fresh.at("", 150+random.IntN(1600)))
	}
	fresh.breakAll(t, kills)
	t.Logf("P1: %d kills at every step of publishing and at random times, no row lost or doubled (seed %d)", len(kills), seed)
}

// TestKillTheRunAfterAnEdit kills runs on an output that a run with another table has finished. The rows of that table
// must disappear from the tables and the gallery, and its files must stay.
func TestKillTheRunAfterAnEdit(t *testing.T) {
	testaid.Long(t, "kills ten processes")
	edit := strings.NewReplacer("moves up", "moves down", "k,please wait", "k,wait no more")
	old := &crashJob{Life: jobtest.Life{Prompts: jobtest.WriteTable(t, "prompts.csv", crashTable), Sets: crashSets}}
	old.prepare(t)
	second := &crashJob{Life: jobtest.Life{Prompts: jobtest.WriteTable(t, "prompts.csv", edit.Replace(crashTable)), Sets: crashSets},
		old: old.Out}
	hits := second.prepare(t)
	if a, b := len(old.want.Files), len(second.want.Files); b != a+8 {
		t.Errorf("%d files before the edit and %d after it, want four videos and four posters more", a, b)
	}
	var kills []jobtest.Life
	for _, point := range []string{fault.StoreReplaceRenamed, fault.LedgerCommitBeforePut} {
		for hit := range hits[point] {
			kills = append(kills, second.at(point, hit+1))
		}
	}
	second.breakAll(t, kills)
	t.Logf("%d runs were killed", len(kills))
}

// TestKillOnPrism kills a run on the prism runner, with batches of two, and resumes it there. The output is equal to
// that of the local runner.
func TestKillOnPrism(t *testing.T) {
	testaid.Long(t, "kills two processes")
	jobtest.NeedPrism(t)
	c := &crashJob{Life: jobtest.Life{Prompts: jobtest.WriteTable(t, "prompts.csv", crashTable), Sets: crashSets}}
	c.prepare(t)
	c.Sets = append([]string{"resources.batch_size=2", "runner=prism"}, crashSets[1:]...)
	c.breakAll(t, []jobtest.Life{c.at(fault.LedgerCommitBeforePut, 1), c.at(fault.StoreReplaceRenamed, 4)})
}

// prepare runs the job undisturbed, stores its output for comparison, and counts the fault points.
func (c *crashJob) prepare(t *testing.T) (hits map[string]int) {
	t.Helper()
	c.Out = c.fresh(t)
	cmd, text := c.Start(t)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("undisturbed run: %v: %s", err, text)
	}
	if err := json.Unmarshal([]byte(text.String()), &hits); err != nil {
		t.Fatalf("undisturbed run: %v: %s", err, text)
	}
	c.want = jobtest.MustRead(t, c.Out)
	if n := len(c.want.Rows["videos"]); n != 20 || len(c.want.Rows["failures"]) != 1 {
		t.Fatalf("undisturbed run: %d videos, failures %v", n, c.want.Rows["failures"])
	}
	return hits
}

// fresh returns a new output directory. Its last element is always the same, because it is the title of the
// gallery.
func (c *crashJob) fresh(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	if c.old != "" {
		if err := os.CopyFS(out, os.DirFS(c.old)); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// at returns a process that is killed at the hit-th call of a fault point, or after hit milliseconds if point is empty.
func (c *crashJob) at(point string, hit int) jobtest.Life {
	l := c.Life
	l.Point, l.Hit = point, hit
	return l
}

// spread chooses at most the given number of hits from 1 to n, including the first and the last.
func spread(n, most int) (hits []int) {
	for i := range min(n, most) {
		hits = append(hits, 1+i*(n-1)/max(1, min(n, most)-1))
	}
	return hits
}

// breakAll calls breakOne for each process, a few concurrently.
func (c *crashJob) breakAll(t *testing.T, kills []jobtest.Life) {
	slot := make(chan bool, 8)
	var wg sync.WaitGroup
	dead := make(chan bool, len(kills))
	for i, l := range kills {
		slot <- true
		l.Out = c.fresh(t)
		wg.Go(func() {
			defer func() { <-slot }()
			dead <- c.breakOne(t, l, i%4 == 0)
		})
	}
	wg.Wait()
	close(dead)
	n := 0
	for d := range dead {
		if d {
			n++
		}
	}
	if n < len(kills)/2 {
		t.Errorf("only %d of %d processes were killed before their end", n, len(kills))
	}
}

// breakOne runs a process until it is killed or ends, checks its output, and resumes the job in another process or
// in this one. It reports whether the process was killed.
func (c *crashJob) breakOne(t *testing.T, l jobtest.Life, child bool) bool {
	cmd, text := l.Start(t)
	if l.Point == "" {
		time.AfterFunc(time.Duration(l.Hit)*time.Millisecond, func() { cmd.Process.Kill() })
	}
	err := cmd.Wait()
	where := fmt.Sprintf("killed at %s:%d", l.Point, l.Hit)
	complain := func(format string, args ...any) {
		t.Errorf("%s: %s", where, fmt.Sprintf(format, args...))
	}
	if err != nil && !jobtest.Killed(err) {
		complain("the child ended with %v: %s", err, text)
		return false
	}
	if err == nil && l.Point != "" { // how many groups are committed depends on how busy the machine is
		var hits map[string]int
		if err := json.Unmarshal([]byte(text.String()), &hits); err != nil || hits[l.Point] >= l.Hit {
			complain("the child was not killed: %v: %s", err, text)
		}
	}
	if wrong := c.halfDone(l.Out); len(wrong) > 0 {
		complain("before the next run:\n%s", strings.Join(wrong, "\n"))
	}
	l.Point, l.Pause = "-", 0
	if child {
		cmd, text := l.Start(t)
		if err := cmd.Wait(); err != nil {
			complain("the next run: %v: %s", err, text)
		}
	} else if _, err := l.Job().Run(); err != nil {
		complain("the next run: %v", err)
	}
	if wrong := c.finished(l); len(wrong) > 0 {
		complain("after the next run:\n%s", strings.Join(wrong, "\n"))
	}
	return err != nil
}

// halfDone checks the output of a killed run: each file with a final name is complete, each finished row in the ledger
// has its files, and if there is a summary, the output is complete.
func (c *crashJob) halfDone(dir string) (wrong []string) {
	got, err := jobtest.ReadOutput(dir)
	if err != nil {
		return []string{err.Error()}
	}
	summary, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err == nil && c.old == "" {
		if wrong = c.want.Diff(got); len(wrong) > 0 || !strings.Contains(string(summary), report.Complete) {
			wrong = append(wrong, "there is a summary, but not all it sums up")
		}
	}
	for name, sum := range got.Files {
		if want, ok := c.want.Files[name]; !ok && !jobtest.IsTemporary(name) {
			wrong = append(wrong, "unknown file "+name)
		} else if ok && sum != want && c.old == "" {
			wrong = append(wrong, "half a file "+name)
		}
	}
	for table, rows := range got.Rows {
		if c.old == "" {
			wrong = append(wrong, jobtest.DiffRows(table, c.want.Rows[table], rows)...)
		}
	}
	return append(wrong, unpublished(dir, got)...)
}

// finished checks the output of the run after the kill: it is equal to that of the undisturbed run, and another run
// has nothing to do.
func (c *crashJob) finished(l jobtest.Life) (wrong []string) {
	got, err := jobtest.ReadOutput(l.Out)
	if err != nil {
		return []string{err.Error()}
	}
	wrong = c.want.Diff(got)
	wrong = append(wrong, unpublished(l.Out, got)...)
	dir, err := dir.Open(l.Out)
	if err != nil {
		return append(wrong, err.Error())
	}
	defer dir.Close()
	if s, err := report.ReadSummary(context.Background(), dir, "summary.json"); err != nil || s.State != report.Complete {
		wrong = append(wrong, fmt.Sprintf("the summary says %q, %v", s.State, err))
	}
	again, err := l.Job().Run()
	if err != nil || !again.NothingToDo {
		wrong = append(wrong, fmt.Sprintf("one run more: %v, nothing to do: %v", err, again.NothingToDo))
	}
	return wrong
}

// unpublished lists the videos of finished rows in the ledger that do not exist.
func unpublished(dir string, got jobtest.Output) (wrong []string) {
	records, err := jobtest.LedgerResults(dir)
	if err != nil {
		return []string{err.Error()}
	}
	for _, r := range records {
		if r.Video == nil {
			continue
		}
		if got.Files[r.Video.Path] != r.Video.SHA256 {
			wrong = append(wrong, "the ledger calls it done: "+r.Video.Path)
		}
		if _, ok := got.Files[r.Video.Poster]; !ok {
			wrong = append(wrong, "the ledger names its poster: "+r.Video.Poster)
		}
	}
	slices.Sort(wrong)
	return wrong
}
