package cli

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/store/bucket/buckettest"
)

// jumpEvery is how long the clock of a machine stands right before it jumps.
const jumpEvery = 20 * time.Millisecond

// jumping is time.Now of the standard library on a machine whose clock jumps by up to ten hours, both ways. What counts the
// time that has passed is left as it is, as the kernel leaves it.
const jumping = `	sec, nsec, mono := runtimeNow()
	jump := uint64(mono/20_000_000) * 0x9e3779b97f4a7c15
	sec += int64((jump^jump>>29)%72_000) - 36_000
`

// jumpingProgram builds the program with a clock that jumps. It compiles the standard library anew, which takes minutes.
func jumpingProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(source)
	const now = "	sec, nsec, mono := runtimeNow()\n"
	if err != nil || strings.Count(string(text), "func Now() Time {\n"+now) != 1 {
		t.Fatalf("time.Now of %s is another one (%v)", runtime.Version(), err)
	}
	changed, overlay, program := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "latentbeam")
	js, err := json.Marshal(map[string]any{"Replace": map[string]string{source: changed}})
	if err == nil {
		err = os.WriteFile(changed, []byte(strings.Replace(string(text), "func Now() Time {\n"+now,
			"func Now() Time {\n"+jumping, 1)), 0o600)
	}
	if err == nil {
		err = os.WriteFile(overlay, js, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", program,
		"latentbeam/cmd/latentbeam").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// heading is what README.md calls the output.
var heading = regexp.MustCompile(`(?m)^# .*$`)

// made are the files of an output that are results, by name.
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

// TestPromiseP13: the clock of a machine does not matter. Jobs run, are killed and go on, shards and workers meet, and a lease
// of a bucket is kept, while the clock jumps by hours both ways. LATENTBEAM_CLOCK=1 runs it: it builds the standard library.
func TestPromiseP13(t *testing.T) {
	if os.Getenv("LATENTBEAM_CLOCK") == "" {
		t.Skip("builds the standard library: LATENTBEAM_CLOCK=1")
	}
	table := "id,prompt\n" + strings.Repeat("a,a red circle\nb,a blue square\nc,a green triangle\nd,a white circle moves\n", 5)
	s := newShell(t, "job.yaml", small, "prompts.csv", table, "token", strings.Repeat("secret", 6))
	if err := os.Chmod(filepath.Join(s.dir, "token"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(0, "run", "job.yaml", "--output", "still")
	want := s.made("still")
	program, lasted := jumpingProgram(t), time.Duration(0)
	start := func(args ...string) (*exec.Cmd, *strings.Builder) {
		cmd, stdout, _ := s.command(args...)
		cmd.Path, cmd.Args[0], cmd.Stderr = program, program, stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, stdout
	}
	run := func(code int, args ...string) string {
		began := time.Now()
		cmd, out := start(args...)
		_ = cmd.Wait()
		lasted += time.Since(began)
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Errorf("%v: exit %d, want %d: %s", args, got, code, out)
		}
		return out.String()
	}
	same := func(dir string) {
		got := s.made(dir)
		for name, text := range want {
			if got[name] != text {
				t.Errorf("%s: %s is another one than with a clock that stands right", dir, name)
			}
		}
	}
	for _, dir := range []string{"one", "two"} { // killed, resumed, verified, cleaned
		cmd, _ := start("run", "job.yaml", "--output", dir, "--set", "resources.checkpoint_interval=1step")
		time.Sleep(700 * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		run(0, "run", "job.yaml", "--output", dir, "--set", "resources.checkpoint_interval=1step")
		s.says(run(0, "run", "job.yaml", "--output", dir), "nothing to do")
		run(0, "verify", dir)
		run(0, "status", dir)
		run(0, "clean", dir)
		same(dir)
	}
	for shard := range 2 {
		run(0, "run", "job.yaml", "--output", "shards", "--shard", fmt.Sprintf("%d/2", shard))
	}

	same("shards")
	worker, out := start("worker", "--listen", "127.0.0.1:47613", "--token-file", "token")
	time.Sleep(2 * time.Second)
	run(0, "run", "job.yaml", "--output", "hosts", "--set", "resources.workers=0", "--set",
		"resources.hosts=[\"127.0.0.1:47613\"]", "--set",
		"resources.token_file=token")
	_ = worker.Process.Kill()
	_ = worker.Wait()
	if t.Failed() {
		t.Logf("the worker says %s", out)
	}
	same("hosts")
	s.env = append(s.env, buckettest.GCS(t).Env...)
	run(0, "run", "job.yaml", "--output", "gs://bucket/one")
	s.says(run(0, "run", "job.yaml", "--output", "gs://bucket/one"), "nothing to do")
	run(0, "copy", "gs://bucket/one", "copied")
	same("copied")
	t.Logf("P13: %d jumps of up to 10 hours both ways in %v of runs, the bytes of a clock that stands right", lasted/jumpEvery,
		lasted.Round(time.Second))
}
