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

// alone is a job of one small batch, computed by a worker alone.
const alone = `version: 1
model: tiny
input: {prompts: prompts.csv}
defaults: {height: 32, width: 32, num_frames: 2, num_inference_steps: 2}
stages: [encode_text, denoise: {}, decode_vae, encode_video]
resources: {workers: 0, threads: 1, token_file: token}
output: {path: out, write: [video]}
`

// TestWorkerMemory: the memory of a worker does not grow with the jobs that it has served. What it kept for a job it gives back
// at the end of the job. Each job is another one to it. The built-in model takes about 10 MB of it while it is open.
func TestWorkerMemory(t *testing.T) {
	jobs, most := testaid.Count(t, "LATENTBEAM_WORKER_JOBS", 8), int64(3<<20)
	s := newShell(t, "job.yaml", alone, "prompts.csv", "prompt\na red circle\na blue square\n", "token", "a token of the test processes\n")
	worker, addr := s.startWorker()
	var first int64
	for i := range jobs {
		s.run(0, "run", "job.yaml", "--output", "out", "--set", fmt.Sprintf("resources.hosts=[%q]", addr), "--set",
			fmt.Sprintf("defaults.seed=%d", i))
		if err := os.RemoveAll(filepath.Join(s.dir, "out")); err != nil {
			t.Fatal(err)
		}
		if i == 1 { // what every job needs is there
			first = atRest(t, worker.Process.Pid, 0)
		}
	}
	last := atRest(t, worker.Process.Pid, first+most)
	if last-first > most {
		t.Errorf("%d bytes after two jobs, %d after %d", first, last, jobs)
	}
	t.Logf("%d kB after two jobs, %d kB after %d", first>>10, last>>10, jobs)
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}

// atRest is the memory of a process that no file stands behind, in bytes. It is the least of a while, or the first value up to
// most. What is given back goes behind the answer to the job.
func atRest(t *testing.T, pid int, most int64) (bytes int64) {
	t.Helper()
	bytes = math.MaxInt64
	for range 60 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Skipf("this system does not show what is whose: %v", err)
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
