//go:build linux && amd64

package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/dev/clock"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/system/testaid"
)

// heading is the name of the output in README.md.
var heading = regexp.MustCompile(`(?m)^# .*$`)

// made returns the result files of an output, by name.
func (s shell) made(dir string) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(filepath.Join(s.dir, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(filepath.Join(s.dir, dir), path)
		if strings.HasPrefix(name, "ledger") || strings.HasPrefix(name, "runs") || strings.HasSuffix(name, "lock") ||
			strings.HasSuffix(name, ".json") || strings.HasPrefix(name, "index") {
			return nil
		}
		data, err := os.ReadFile(path)
		if name == "README.md" {
			data = heading.ReplaceAll(data, nil)
		}
		out[name] = string(data)
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
	return out
}

// TestPromiseP13: results do not depend on the clock of a machine. While the clock jumps by hours forwards and backwards, jobs are
// killed and continued, shards and workers join, and the lease of a bucket is kept. LATENTBEAM_CLOCK is the number of killed jobs.
func TestPromiseP13(t *testing.T) {
	table := "id,prompt\n" + strings.Repeat("a,a red circle\nb,a blue square\nc,a green triangle\nd,a white circle moves\n", 5)
	s := newShell(t, "job.yaml", small, "prompts.csv", table, "token", strings.Repeat("secret", 6))
	s.run(0, "run", "job.yaml", "--output", "still")
	want := s.made("still")
	s.env = append(s.env, jumpingClock+"=1")
	lasted := time.Duration(0)
	run := func(args ...string) string {
		began := time.Now()
		defer func() { lasted += time.Since(began) }()
		return s.run(0, args...)
	}
	same := func(dir string) {
		t.Helper()
		got := s.made(dir)
		for name, text := range want {
			if got[name] != text {
				t.Errorf("%s: the file %s differs from the one with a right clock", dir, name)
			}
		}
	}
	for i := range testaid.Count(t, "LATENTBEAM_CLOCK", 1) { // each job is killed, resumed, verified and cleaned
		dir := fmt.Sprint("killed", i)
		again := []string{"run", "job.yaml", "--output", dir, "--set", "resources.checkpoint_interval=1step", "--set",
			"resources.batch_size=1"}
		r := s.launch(again...)
		r.until(func() bool { return s.exists(dir+"/videos") || len(r.ended) > 0 })
		_ = r.process.Kill()
		<-r.ended
		run(again...)
		s.says(run(again...), "nothing to do")
		run("verify", dir)
		run("status", dir)
		run("clean", dir)
		same(dir)
	}
	for shard := range 2 {
		run("run", "job.yaml", "--output", "shards", "--shard", fmt.Sprintf("%d/2", shard))
	}
	same("shards")
	_, addr := s.startWorker()
	run("run", "job.yaml", "--output", "hosts", "--set", "resources.workers=0", "--set", fmt.Sprintf("resources.hosts=[%q]", addr),
		"--set", "resources.token_file=token")
	same("hosts")
	s.env = append(s.env, buckettest.GCS(t).Env...)
	run("run", "job.yaml", "--output", "gs://bucket/one")
	s.says(run("run", "job.yaml", "--output", "gs://bucket/one"), "nothing to do")
	run("copy", "gs://bucket/one", "copied")
	same("copied")
	t.Logf("P13: %d jumps of up to %v both ways in %v of runs, the bytes of a clock that stands right", lasted/clock.Every, clock.Most,
		lasted.Round(time.Second))
}
