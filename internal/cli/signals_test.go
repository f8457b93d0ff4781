//go:build unix

package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"latentbeam/internal/config"
	"latentbeam/pipelines"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
)

// endless is a job of one row that takes far longer than any test, even on a fast machine.
const endless = `version: 1
model: tiny
input: {prompts: prompts.csv}
defaults: {height: 128, width: 128, num_frames: 32, num_inference_steps: 1000}
resources: {threads: 1}
stages: [encode_text, denoise, decode_vae, encode_video]
output: {path: out}
`

// running is a program that runs a job.
type running struct {
	shell
	process *os.Process
	ended   chan int // exit code
	out     *spoken
}

// spoken is a writer that collects the output of a running program.
type spoken struct {
	sync.Mutex
	strings.Builder
}

func (s *spoken) Write(p []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.Builder.Write(p)
}

func (s *spoken) String() string {
	s.Lock()
	defer s.Unlock()
	return s.Builder.String()
}

// begin starts the program with run and waits until it has opened the job.
func (s shell) begin(args ...string) *running {
	s.t.Helper()
	_ = os.Remove(filepath.Join(s.dir, "out/job.json")) // from an earlier run
	r := s.launch(args...)
	r.until(func() bool { return s.exists("out/job.json") })
	return r
}

// launch starts the program and returns at once.
func (s shell) launch(args ...string) *running {
	s.t.Helper()
	cmd, _, _ := s.command(args...)
	out := &spoken{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	r := &running{s, cmd.Process, make(chan int, 1), out}
	go func() {
		_ = cmd.Wait()
		r.ended <- cmd.ProcessState.ExitCode()
	}()
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return r
}

// until waits until a condition holds. If the process ends before, it fails.
func (r *running) until(so func() bool) {
	r.t.Helper()
	for began := time.Now(); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > 3*time.Minute {
			r.t.Fatalf("the condition was not met in three minutes; the program prints %s", r.out)
		}
		if len(r.ended) > 0 && !so() {
			r.t.Fatalf("the program has ended before the condition was met: %s", r.out)
		}
	}
}

// untilDenoising waits until a batch is denoised.
func (r *running) untilDenoising() {
	r.t.Helper()
	r.until(func() bool { return slices.Contains(r.now().stages, "denoise") })
}

// signal sends a signal to the program.
func (r *running) signal(s os.Signal) {
	r.t.Helper()
	if err := r.process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// ends waits until the program ends, checks its exit code and returns what it printed.
func (r *running) ends(code int, within time.Duration) string {
	r.t.Helper()
	select {
	case got := <-r.ended:
		if got != code {
			r.t.Errorf("got exit code %d, want %d:\n%s", got, code, r.out)
		}
		return r.out.String()
	case <-time.After(within):
		r.t.Fatalf("the program did not end within %v", within)
	}
	return ""
}

// TestSignalDrains: after SIGINT the rows in flight finish. The output is complete, and the next run continues.
// TestDrainEnds sends SIGTERM.
func TestSignalDrains(t *testing.T) {
	const rows, more = 1000, 5 // far more rows than are done when the first are published
	var table strings.Builder
	table.WriteString("prompt\n")
	for i := range rows {
		fmt.Fprintf(&table, "a red circle moves left %d\n", i)
	}
	s := newShell(t, "job.yaml", strings.Replace(small, "steps: 2", "steps: 40", 1), "prompts.csv", table.String())
	r := s.begin("run", "job.yaml", "--set", "resources.batch_size=1", "--set", "drain_timeout=2m")
	r.until(func() bool { return s.videos() > 0 })
	r.signal(os.Interrupt)
	s.says(r.ends(130, 4*time.Minute), "interrupt: finishing what is in flight (at most 2m0s; again to stop at once)",
		"interrupted with ", " rows to do; run it again to go on")
	done := s.videos()
	if done == 0 || done == rows {
		t.Errorf("%d of %d rows were done when the run was interrupted", done, rows)
	}
	summary, err := os.ReadFile(filepath.Join(s.dir, "out/summary.json"))
	if err != nil || !strings.Contains(string(summary), `"state": "incomplete"`) ||
		!strings.Contains(string(summary), fmt.Sprintf(`"pending": %d`, rows-done)) {
		t.Errorf("%d videos are published, %v; the summary is\n%s", done, err, summary)
	}
	s.says(s.run(0, "run", "job.yaml", "--limit", fmt.Sprint(done+more)),
		fmt.Sprintf("%d rows: %d to do, %d done before", done+more, more, done))
	if n := s.videos(); n != done+more {
		t.Errorf("after the next run there are %d videos, want %d", n, done+more)
	}
}

// videos counts the published videos.
func (s shell) videos() int {
	s.t.Helper()
	all, err := filepath.Glob(filepath.Join(s.dir, "out/videos/*/*.mp4"))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(all)
}

// TestSignalWhileOpening: a signal ends the program at once while it opens a job, however long that takes.
func TestSignalWhileOpening(t *testing.T) {
	s := newShell(t, "prompts.csv", threePrompts)
	job := strings.Replace(small, "prompts.csv", filepath.Join(s.dir, "prompts.csv"), 1)
	cfg, err := config.Parse("job.yaml", job, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	defer close(ended)
	specs := catalog.All()
	for i, spec := range specs {
		specs[i].New = func(m *stages.Model, o stages.Options) (stages.Stage, error) {
			<-ended
			return spec.New(m, o)
		}
	}
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	_, err = openJob(signals, io.Discard, cfg, pipelines.Options{Specs: specs})
	if fault.ExitCode(err) != fault.ExitInterrupted {
		t.Errorf("got exit code %d: %v", fault.ExitCode(err), err)
	}
}

// TestWait: a run with --wait continues when the first run has ended. A signal ends the wait.
func TestWait(t *testing.T) {
	s := newShell(t, "job.yaml", endless, "quick.yaml", small, "prompts.csv", "prompt\na red circle\n")
	r := s.begin("run", "job.yaml", "--output", "out")
	r.untilDenoising()
	impatient := s.launch("run", "quick.yaml", "--wait")
	impatient.until(func() bool { return strings.Contains(impatient.out.String(), "waiting: ") })
	impatient.signal(os.Interrupt)
	impatient.ends(130, 20*time.Second)
	waiting := s.launch("run", "quick.yaml", "--wait")
	waiting.until(func() bool { return strings.Contains(waiting.out.String(), "waiting: ") })
	r.signal(os.Interrupt)
	r.until(func() bool { return strings.Contains(r.out.String(), "finishing what is in flight") })
	r.signal(os.Interrupt)
	r.ends(130, time.Minute)
	waiting.ends(0, time.Minute)
	s.says(waiting.out.String(), "is in use by pid ", "1 to do")
	s.says(s.run(0, "run", "quick.yaml", "--wait"), "0 to do")
}

// TestDrainEnds: a second signal and the end of drain_timeout end a run at once, although its row takes minutes. Until then
// a second run names the first one.
func TestDrainEnds(t *testing.T) {
	s := newShell(t, "job.yaml", endless, "prompts.csv", "prompt\na red circle\n")
	r := s.begin("run", "job.yaml")
	s.says(s.run(75, "run", "job.yaml", "--set", "defaults.num_inference_steps=2"), "is in use by pid ",
		fmt.Sprint(r.process.Pid), "latentbeam run")
	s.says(s.run(75, "run", "job.yaml", "--shard", "0/2"), "is in use by pid ", fmt.Sprint(r.process.Pid))
	r.untilDenoising()
	r.signal(os.Interrupt)
	r.until(func() bool { return strings.Contains(r.out.String(), "finishing what is in flight") })
	r.signal(os.Interrupt)
	s.says(r.ends(130, time.Minute), "finishing what is in flight (at most 30s; again to stop at once)", "interrupted twice")
	s.says(s.run(0, "status", "out"), "job cancelled", "interrupted twice")

	r = s.begin("run", "job.yaml", "--set", "drain_timeout=1s")
	r.untilDenoising()
	r.signal(syscall.SIGTERM)
	s.says(r.ends(130, time.Minute), "terminated: finishing what is in flight (at most 1s",
		"did not finish within drain_timeout")
	s.says(s.run(0, "run", "job.yaml", "--set", "defaults.num_inference_steps=2",
		"--set", "defaults.num_frames=2"), "1 row: 1 to do")
}
