package runners

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/pipelines"
	"latentbeam/stages"
)

// suite lists jobs that every runner must execute with equal results. A new runner needs only its
// line in runners.All.
func suite(t *testing.T) map[string]jobtest.Job {
	t.Helper()
	whole := jobtest.NewJob(t, jobtest.SeamTable)
	whole.MustRun(t)
	tables := func(kind string) string {
		return fmt.Sprintf("{%s: %q}", kind, filepath.Join(whole.Out, "tables", kind, "*.parquet"))
	}
	write := func(kind string, more ...string) []string { return append(more, "output.write=["+kind+"]") }
	rows := func(text string) string { return jobtest.WriteTable(t, "prompts.csv", text) }
	all := "on_error.stop_after=100%"
	return map[string]jobtest.Job{
		"text to video":   {Prompts: whole.Prompts},
		"several buckets": {Prompts: rows(jobtest.SameTable), Sets: []string{"resources.batch_size=3"}},
		"encode only":     {Prompts: whole.Prompts, Stages: "[encode_text]", Sets: write("embeddings")},
		"from embeddings": {Input: tables("embeddings"), Stages: "[denoise]", Sets: write("latents")},
		"from latents":    {Input: tables("latents"), Stages: "[decode_vae, encode_video]", Sets: write("video")},
		"with failures": {Prompts: rows(jobtest.ManyRows(300) + failing), Stages: "[toy]", Specs: jobtest.Specs(jobtest.ToySpec()),
			Sets: write("latents", all)},
		"with readings": {Prompts: whole.Prompts, Sets: write("video"),
			Stages: "[encode_text, denoise, decode_vae, encode_video, measure_shapes]"},
		"no rows": {Prompts: rows("prompt\n"), Opts: pipelines.Options{AllowEmpty: true}},
		"nothing but failures": {Prompts: rows("prompt,seed\npoison,\nx,NaN\n"), Stages: "[toy]",
			Specs: jobtest.Specs(jobtest.ToySpec()), Sets: write("latents", all)},
	}
}

// failing is appended to jobtest.ManyRows: rows that fail alone, with their batch, and before they have a key.
const failing = "poison\npanic\n\"\xff\"\nanother poison\n"

// TestSuite runs the jobs of suite on each runner that works in this process. The outputs are equal, and a rerun computes nothing.
func TestSuite(t *testing.T) {
	for name, j := range suite(t) {
		t.Run(name, func(t *testing.T) {
			var first jobtest.Output
			names := jobtest.InProcess(t)
			for i, runner := range names {
				j.Out = filepath.Join(t.TempDir(), "out")
				one := j
				one.Sets = append([]string{"runner=" + runner.Name}, j.Sets...)
				r := one.MustRun(t)
				if r.Totals.Pending > 0 {
					t.Errorf("runner %s: got totals %+v", runner.Name, r.Totals)
				}
				got := jobtest.MustRead(t, one.Out)
				if i == 0 {
					first = got
				} else if wrong := first.Diff(got); len(wrong) > 0 {
					t.Errorf("runner %s differs from %s:\n%s", runner.Name, names[0].Name, strings.Join(wrong, "\n"))
				}
				if again := one.MustRun(t); !again.NothingToDo {
					t.Errorf("runner %s: a rerun computed %d rows, want 0", runner.Name, again.Done)
				}
			}
		})
	}
}

const suiteRunnerEnv = "LATENTBEAM_TEST_RUNNER" // makes this binary the child that runs a job on that runner

// traces lists what a runner opens or leaves in its process and on the host.
type traces struct {
	During, After []string // addresses that the process listens on
	Files         []string // in the directory for temporary files, after the run
	Open          []int    // file descriptors, before the first run and after each
}

// TestRunnersLeaveNoTraces checks a process that runs a job three times. No runner leaves files or additional file descriptors after
// a job, and the local runner opens no port.
func TestRunnersLeaveNoTraces(t *testing.T) {
	if name := os.Getenv(suiteRunnerEnv); name != "" {
		tracesChild(t, name)
		return
	}
	for _, runner := range jobtest.InProcess(t) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRunnersLeaveNoTraces$")
		cmd.Env = append(os.Environ(), suiteRunnerEnv+"="+runner.Name, "TMPDIR="+t.TempDir())
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var got traces
		if err := json.NewDecoder(strings.NewReader(string(out))).Decode(&got); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("%s: %+v", runner.Name, got)
		silent := runner.Name != "local" || len(got.During)+len(got.After) == 0
		if !silent || len(got.Files) > 0 || got.Open[1] != got.Open[3] {
			t.Errorf("the runner %s left traces: %+v", runner.Name, got)
		}
	}
}

// tracesChild is the process of TestRunnersLeaveNoTraces. It runs the job three times and prints the traces.
func tracesChild(t *testing.T, runner string) {
	var got traces
	look := jobtest.Passive("look", func(context.Context, []*stages.Element) error {
		got.During = listening(t)
		return nil
	})
	got.Open = append(got.Open, len(descriptors(t)))
	dir := os.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "jobs"), 0o755); err != nil {
		t.Fatal(err)
	}
	prompts := filepath.Join(dir, "jobs", "prompts.txt")
	if err := os.WriteFile(prompts, []byte("a\nb\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		j := jobtest.Job{Prompts: prompts, Out: filepath.Join(dir, "jobs", fmt.Sprint(i)), Stages: "[look, toy]",
			Specs: jobtest.Specs(look, jobtest.ToySpec()), Sets: []string{"output.write=[latents]", "runner=" + runner}}
		if r := j.MustRun(t); r.Done != 2 {
			t.Errorf("run %d: got %d rows done", i, r.Done)
		}
		got.Open = append(got.Open, len(descriptors(t)))
	}
	got.After = listening(t)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "jobs" {
			got.Files = append(got.Files, e.Name())
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(got); err != nil {
		t.Fatal(err)
	}
}

// descriptors returns the files behind the file descriptors of this process.
func descriptors(t *testing.T) (targets []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc")
	}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			targets = append(targets, target)
		}
	}
	return targets
}

// listening lists the addresses that sockets of this process listen on, as /proc/net/tcp writes them.
func listening(t *testing.T) (addresses []string) {
	t.Helper()
	const listen = "0A"
	mine := map[string]bool{}
	for _, d := range descriptors(t) {
		if inode, ok := strings.CutPrefix(d, "socket:["); ok {
			mine[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == listen && mine[f[9]] {
				addresses = append(addresses, f[1])
			}
		}
	}
	return addresses
}
