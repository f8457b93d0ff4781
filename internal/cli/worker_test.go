//go:build unix

package cli

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"latentbeam/internal/system/testaid"
)

// widely is a job whose batches need three workers.
const widely = `version: 1
model: tiny
input: {prompts: prompts.csv}
defaults: {height: 32, width: 48, num_frames: 5, num_inference_steps: 20}
stages: [encode_text, denoise: {}, decode_vae, encode_video]
resources: {batch_size: 1, threads: 1}
output: {path: out, write: [video, latents]}
`

// startWorker starts `latentbeam worker` as a process and returns its address.
func (s shell) startWorker(args ...string) (*exec.Cmd, string) {
	s.t.Helper()
	args = append([]string{"worker", "--listen", "127.0.0.1:0", "--token-file", "token", "--threads", "1"}, args...)
	if err := os.Chmod(filepath.Join(s.dir, "token"), 0o600); err != nil { // a file that others can read would cause a warning
		s.t.Fatal(err)
	}
	cmd, _, _ := s.command(args...)
	out, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("worker-%d.log", time.Now().UnixNano())))
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
	for began := time.Now(); time.Since(began) < 3*time.Minute; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(out.Name())
		if addr, ok := strings.CutPrefix(string(text), "listening at "); ok && strings.HasSuffix(addr, "\n") {
			return cmd, strings.TrimSpace(addr)
		}
	}
	s.t.Fatal("the worker does not listen")
	return nil, ""
}

// results returns the digests of the videos and of the tables of latents.
func (s shell) results(out string) string {
	s.t.Helper()
	h := sha256.New()
	root := filepath.Join(s.dir, out)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, root)
		if err != nil || d.IsDir() || !strings.HasPrefix(name, "/videos/") && !strings.HasPrefix(name, "/tables/latents") {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(data))
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// TestWorkers: three ranks in three processes over TCP write the bytes that one worker writes, also if one of them is killed
// in the middle of the job. A worker stops on SIGTERM.
func TestWorkers(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("id,prompt\n")
	for i := range 8 {
		fmt.Fprintf(&rows, "%d,a red circle number %d\n", i, i)
	}
	s := newShell(t, "job.yaml", widely, "prompts.csv", rows.String(), "token", "a token of the test processes\n")
	s.run(0, "run", "job.yaml", "--output", "alone")
	want := s.results("alone")
	a, addrA := s.startWorker()
	b, addrB := s.startWorker()
	hosts := []string{"--set", fmt.Sprintf("resources.hosts=[%q, %q]", addrA, addrB),
		"--set", "resources.token_file=token", "--set", "stages.denoise.sequence_parallel=3"}
	s.run(0, append([]string{"run", "job.yaml", "--output", "three"}, hosts...)...)
	if s.results("three") != want {
		t.Error("three processes give other bytes than one")
	}
	r := s.begin(append([]string{"run", "job.yaml"}, hosts...)...)
	r.until(func() bool { return s.exists("out/videos") })
	if err := b.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.ends(0, 3*time.Minute)
	if s.results("out") != want {
		t.Error("with a worker that was killed, the bytes differ")
	}
	if err := a.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}

// TestStoppedWorker: a worker that gets SIGSTOP sends nothing and closes no connection. The job misses its heartbeats, computes
// its work elsewhere and reports the loss, whether the worker computes batches alone or has ranks of a set.
func TestStoppedWorker(t *testing.T) {
	testaid.Long(t, "it takes the time after which a process counts as stopped")
	var rows strings.Builder
	rows.WriteString("id,prompt\n")
	for i := range 8 {
		fmt.Fprintf(&rows, "%d,a red circle number %d\n", i, i)
	}
	long := "defaults.num_inference_steps=400"
	s := newShell(t, "job.yaml", widely, "prompts.csv", rows.String(), "token", "a token of the test processes\n")
	s.run(0, "run", "job.yaml", "--output", "alone", "--set", long)
	want := s.results("alone")
	for _, width := range []string{"1", "2"} {
		t.Run(width+" devices for a batch", func(t *testing.T) {
			t.Parallel() // the test mostly waits
			s := newShell(t, "job.yaml", widely, "prompts.csv", rows.String(), "token", "a token of the test processes\n")
			_, addrA := s.startWorker()
			b, addrB := s.startWorker()
			r := s.begin("run", "job.yaml", "--set", fmt.Sprintf("resources.hosts=[%q, %q]", addrA, addrB), "--set",
				"resources.token_file=token",
				"--set", "resources.workers=0", "--set", "stages.denoise.sequence_parallel="+width, "--set", long)
			r.until(func() bool { return s.exists("out/videos") })
			if err := b.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			s.says(r.ends(0, 3*time.Minute), "a worker does not answer", addrB, "silent for 20s: the process there is stopped")
			if s.results("out") != want {
				t.Error("with a worker that was stopped, the bytes differ")
			}
		})
	}
}

// TestWorkerCommandLine: a wrong command line fails before the worker listens.
func TestWorkerCommandLine(t *testing.T) {
	s := newShell(t, "short", "x", "token", "a token of the test processes\n")
	s.says(s.run(2, "worker"), "--token-file is missing")
	s.says(s.run(2, "worker", "--token-file", "short"), "1 bytes, must be 16")
	s.says(s.run(2, "worker", "--token-file", "none"), "make one with")
	s.says(s.run(2, "worker", "--token-file", "token", "--workers", "0"), "give 1 to 1024")
	s.says(s.run(75, "worker", "--token-file", "token", "--listen", "256.0.0.1:1"), "listen")
	s.says(s.run(2, "worker", "--token-file", "token", "--listen", "7447"), `--listen is "7447"`, "write host:port")
	s.says(s.run(2, "worker", "--token-file", "token", "--listen", "127.0.0.1:99999"), "invalid port")
}

// TestWorkerThatIsNotThere: a worker that does not answer gives exit code 75, because it may answer later.
func TestWorkerThatIsNotThere(t *testing.T) {
	s := newShell(t, "job.yaml", widely, "prompts.csv", threePrompts, "token", "a token of the test processes\n")
	for _, verb := range []string{"run", "plan"} {
		s.says(s.run(75, verb, "job.yaml", "--set", "resources.hosts=[127.0.0.1:1]", "--set", "resources.workers=0",
			"--set", "resources.token_file=token"),
			"worker 127.0.0.1:1 does not answer", "connection refused", "fix: start it on that host")
	}
	if s.exists("out") {
		t.Error("the run created an output")
	}
	// If this process has devices, the job runs without the worker.
	s.says(s.run(0, "run", "job.yaml", "--set", "resources.hosts=[127.0.0.1:1]", "--set", "resources.token_file=token"),
		"this run does without a worker", "worker 127.0.0.1:1 does not answer", "3 to do")
}
