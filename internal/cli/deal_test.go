//go:build unix

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKilledWhileDealing: a process that dies while it writes the row files of a cluster's job leaves them behind. verify does not
// call them damage, and the next run removes them, on any runner.
func TestKilledWhileDealing(t *testing.T) {
	const many = 20_000
	var table strings.Builder
	table.WriteString("prompt\n")
	for i := range many {
		fmt.Fprintf(&table, "a red circle moves left %d\n", i)
	}
	s := newShell(t, "job.yaml", small, "prompts.csv", table.String())
	left := func() (all []string) {
		for _, pattern := range []string{"rows*", ".tmp-*"} {
			found, err := filepath.Glob(filepath.Join(s.dir, "out/runs/*", pattern))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, found...)
		}
		return all
	}
	r := s.launch("run", "job.yaml", "--set", "runner={name: flink, endpoint: \"localhost:1\"}")
	r.until(func() bool { return s.exists("out/job.json") && len(left()) > 0 })
	r.signal(syscall.SIGKILL)
	r.ends(-1, time.Minute)
	if len(left()) == 0 {
		t.Fatalf("the run ended before it was killed: %s", r.out)
	}
	jobs, err := filepath.Glob(filepath.Join(s.dir, "out/runs/*/job.json"))
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	rows := filepath.Join(filepath.Dir(jobs[0]), "rows") // the files of a process that dies a moment later
	if err := os.WriteFile(rows, []byte("blocks"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text := s.run(0, "verify", "out"); strings.Contains(text, "runs/") {
		t.Errorf("the file of rows is reported as damage: %s", text)
	}
	s.says(s.run(0, "run", "job.yaml", "--limit", "2"), "2 to do")
	if all := left(); len(all) > 0 {
		t.Errorf("the next run has left %v", all)
	}
}
