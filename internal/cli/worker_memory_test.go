//go:build linux

package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"latentbeam/internal/system/testaid"
)

// alone is a job of one small batch that a worker computes.
const alone = `version: 1
model: tiny
input: {prompts: prompts.csv}
defaults: {height: 32, width: 32, num_frames: 2, num_inference_steps: 2}
stages: [encode_text, denoise: {}, decode_vae, encode_video]
resources: {workers: 0, threads: 1, token_file: token}
output: {path: out, write: [video]}
`

// TestWorkerMemory: the memory of a worker does not grow with the number of jobs. It frees what it kept for a job at the end of
// the job. The worker sees each run as another job. The built-in model takes about 10 MB while it is open.
func TestWorkerMemory(t *testing.T) {
	jobs, most := testaid.Count(t, "LATENTBEAM_WORKER_JOBS", 5), int64(3<<20)
	s := newShell(t, "job.yaml", alone, "prompts.csv", "prompt\na red circle\na blue square\n", "token", "a token of the test processes\n")
	worker, addr := s.startWorker()
	var first int64
	for i := range jobs {
		s.run(0, "run", "job.yaml", "--output", "out", "--set", fmt.Sprintf("resources.hosts=[%q]", addr), "--set",
			fmt.Sprintf("defaults.seed=%d", i))
		if err := os.RemoveAll(filepath.Join(s.dir, "out")); err != nil {
			t.Fatal(err)
		}
		if i == 1 { // now the memory that all jobs share is allocated
			first = atRest(t, worker.Process.Pid, 0)
		}
	}
	last := atRest(t, worker.Process.Pid, first+most)
	if last-first > most {
		t.Errorf("the worker has %d bytes after two jobs, but %d after %d jobs", first, last, jobs)
	}
	t.Logf("the worker has %d kB after two jobs and %d kB after %d", first>>10, last>>10, jobs)
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}

// atRest returns the anonymous memory of a process in bytes: the first value up to most, or the minimum over three seconds, or
// over one if most is 0. A worker frees memory after it has answered, so the first value can be too large.
func atRest(t *testing.T, pid int, most int64) (bytes int64) {
	t.Helper()
	bytes = math.MaxInt64
	tries := 60
	if most == 0 {
		tries = 20
	}
	for range tries {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Skipf("this system does not show the anonymous memory of a process: %v", err)
		}
		for line := range strings.Lines(string(text)) {
			var now int64
			if _, err := fmt.Sscanf(line, "Anonymous: %d kB", &now); err == nil {
				bytes = min(bytes, now<<10)
			}
		}
		if bytes <= most {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return bytes
}
