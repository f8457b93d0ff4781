package restarts

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
)

// TestKillBetweenTables kills a run that only changes the order of rows, at every rename of a file and at every step of
// removing tensors from the log. Nothing is computed again.
func TestKillBetweenTables(t *testing.T) {
	testaid.Long(t, "kills some 20 processes")
	lines := strings.SplitAfter(strings.TrimSuffix(crashTable, "\n"), "\n")
	other := lines[0]
	for i := len(lines) - 1; i > 0; i-- {
		other += strings.TrimSuffix(lines[i], "\n") + "\n"
	}
	sets := append([]string{"output.rows_per_file=6"}, crashSets...)
	first := &crashJob{Life: jobtest.Life{Prompts: jobtest.WriteTable(t, "prompts.csv", crashTable), Sets: sets}}
	first.prepare(t)
	second := &crashJob{Life: jobtest.Life{Prompts: jobtest.WriteTable(t, "prompts.csv", other), Sets: sets}, old: first.Out}
	hits := second.prepare(t)
	var wg sync.WaitGroup
	slot := make(chan bool, 4)
	n := 0
	for _, point := range []string{fault.StoreReplaceRenamed, fault.LedgerCommitAfterPut,
		fault.LedgerCompactSegmentPut, fault.LedgerCompactBeforeRemove, fault.LedgerCompactRemoved} {
		for hit := range hits[point] {
			l := second.at(point, hit+1)
			l.Out = second.fresh(t)
			slot <- true
			n++
			wg.Go(func() {
				defer func() { <-slot }()
				if wrong := second.breakFree(l, t); len(wrong) > 0 {
					t.Errorf("killed at %s:%d: %s", l.Point, l.Hit, strings.Join(wrong, "\n"))
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d runs were killed; the undisturbed run has the fault points %v", n, hits)
}

// breakFree runs a process until it is killed or ends, and resumes the job, which must not compute anything.
func (c *crashJob) breakFree(l jobtest.Life, t *testing.T) []string {
	cmd, text := l.Start(t)
	if err := cmd.Wait(); !jobtest.Killed(err) {
		return []string{fmt.Sprintf("the child ended with %v: %s", err, text)}
	}
	r, err := l.Job().Run()
	if err != nil {
		return []string{err.Error()}
	}
	got, err := jobtest.ReadOutput(l.Out)
	if err != nil {
		return []string{err.Error()}
	}
	wrong := c.want.Diff(got)
	if r.Done > 0 {
		wrong = append(wrong, fmt.Sprintf("%d elements were computed again", r.Done))
	}
	return wrong
}
