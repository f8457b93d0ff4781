package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/dev/clock"
	"latentbeam/schemas/fault"
	"latentbeam/stages/catalog"
	"latentbeam/stages/exec/exectest"
)

// asProgram is the variable of the environment that makes this test binary run as the program.
const asProgram = "LATENTBEAM_TEST_PROGRAM"

// jumpingClock is the variable that makes the clock of the program jump.
const jumpingClock = "LATENTBEAM_TEST_JUMPING_CLOCK"

func TestMain(m *testing.M) {
	exectest.Main()
	if os.Getenv(asProgram) != "" {
		if os.Getenv(jumpingClock) != "" && !clock.Jump() {
			fmt.Fprintln(os.Stderr, "this clock cannot jump")
			os.Exit(-1)
		}
		slowFiles()
		os.Exit(Main(catalog.All()))
	}
	os.Exit(m.Run())
}

// slowTables and slowVideos are variables with the time that each file of a table or video takes, as with large tables or a
// slow disk.
const (
	slowTables = "LATENTBEAM_TEST_SLOW_TABLES"
	slowVideos = "LATENTBEAM_TEST_SLOW_VIDEOS"
)

// slowFiles makes writing files slow, as the environment says.
func slowFiles() {
	pauses := map[string]time.Duration{}
	for name, pattern := range map[string]string{slowTables: "out/tables/*/.tmp-*", slowVideos: "out/videos/*/.tmp-*"} {
		if d, err := time.ParseDuration(os.Getenv(name)); err == nil {
			pauses[pattern] = d
		}
	}
	if len(pauses) == 0 {
		return
	}
	fault.SetHook(func(point string) {
		if point != fault.StorePutTempCreated && point != fault.StoreReplaceTempCreated {
			return
		}
		for pattern, pause := range pauses {
			if begun, _ := filepath.Glob(pattern); len(begun) > 0 {
				time.Sleep(pause)
			}
		}
	})
}

// shell is a directory to call the program in.
type shell struct {
	t     *testing.T
	dir   string
	env   []string
	stdin string // what is piped into the program
}

// small is a job that takes a few milliseconds for a row.
const small = `version: 1
model: tiny
input: {prompts: prompts.csv}
defaults:
  height: 16
  width: 16
  num_frames: 2
  num_inference_steps: 2
stages: [encode_text, denoise, decode_vae, guard, encode_video]
output:
  path: out
`

const threePrompts = "id,prompt\na,a red circle moves left\nb,a blue square moves up\nc,a green triangle\n"

// newShell is a directory with the files given by name and text.
func newShell(t *testing.T, files ...string) shell {
	t.Helper()
	s := shell{t: t, dir: t.TempDir()}
	for i := 0; i < len(files); i += 2 {
		s.write(files[i], files[i+1])
	}
	return s
}

// write writes a file below the directory.
func (s shell) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// command returns the program with arguments, not yet started. Its output goes to the two builders.
func (s shell) command(args ...string) (cmd *exec.Cmd, stdout, stderr *strings.Builder) {
	cmd = exec.Command(os.Args[0], args...)
	cmd.Dir = s.dir
	cmd.Env = append(append(clean(os.Environ()), asProgram+"=1"), s.env...)
	stdout, stderr = &strings.Builder{}, &strings.Builder{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if s.stdin != "" {
		cmd.Stdin = strings.NewReader(s.stdin)
	}
	return cmd, stdout, stderr
}

// clean removes variables that would make every run a shard.
func clean(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		return strings.HasPrefix(v, "JOB_COMPLETION") || strings.HasPrefix(v, "SLURM_")
	})
}

// run runs the program, checks its exit code and returns what it printed.
func (s shell) run(code int, args ...string) string {
	s.t.Helper()
	stdout, stderr := s.both(code, args...)
	return stdout + stderr
}

// both is run with the two outputs apart. On a slow machine a command says on stderr that it waits.
func (s shell) both(code int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	cmd, out, errs := s.command(args...)
	if err := cmd.Run(); cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		s.t.Errorf("latentbeam %s: got exit code %d, want %d:\n%s%s", strings.Join(args, " "), got, code, out, errs)
	}
	return out.String(), errs.String()
}

// says checks that the text has all the parts.
func (s shell) says(text string, parts ...string) {
	s.t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			s.t.Errorf("the text does not contain %q:\n%s", p, text)
		}
	}
}

// list returns all files and directories below the directory, with its time and size.
func (s shell) list() (all []string) {
	s.t.Helper()
	err := filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all = append(all, fmt.Sprintf("%s %v %d", path, info.ModTime(), info.Size()))
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

// exists reports whether there is such a file or directory.
func (s shell) exists(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

// TestInitThenRun: the job that init writes runs as it is. A second init changes nothing.
func TestInitThenRun(t *testing.T) {
	s := newShell(t)
	s.says(s.run(0, "init"), "wrote job.yaml", "wrote prompts.csv", "latentbeam run job.yaml")
	s.says(s.run(0, "run", "job.yaml", "--dry-run"), "new", "predicted") // the job as init wrote it
	few := []string{"run", "job.yaml", "--set", "defaults.num_inference_steps=2",
		"--set", "stages.guard.reject=[nan]"}
	s.says(s.run(0, append(few, "--profile")...), "done", "stage", "denoise", "kernel", "GFLOP/s", "linear", "output: out/my-job",
		"gallery: out/my-job/index.html", "report: out/my-job/runs/")
	for _, name := range []string{"summary.json", "index.html", "tables/videos/00000.parquet",
		"tables/failures/00000.parquet"} {
		if !s.exists("out/my-job/" + name) {
			t.Errorf("the run has not written %s", name)
		}
	}
	videos, err := filepath.Glob(filepath.Join(s.dir, "out/my-job/videos/*/*.mp4"))
	if err != nil || len(videos) != 3 {
		t.Errorf("got %d videos, %v", len(videos), err)
	}
	s.says(s.run(0, few...), "nothing to do: all 3 rows")

	before := s.list()
	s.says(s.run(2, "init"), "job.yaml", "exists")
	if after := s.list(); !slices.Equal(before, after) {
		t.Errorf("a second init changed files:\n%s\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
	if text := s.run(0, "init", "other.yaml"); strings.Contains(text, "prompts.csv") {
		t.Errorf("a second init prints that it wrote the prompts: %s", text)
	}
}

// TestExitCodes: the exit codes of a run with a failed row, of a run that stops at too many failures, and of other verbs, with their texts.
func TestExitCodes(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts+"d,a red circle\ne,,\n")
	const why = "\nfailed\n  prompts.csv:6: read: the row has 3 values"
	s.says(s.run(1, "run", "job.yaml"), "1 of 5 rows failed", "out/tables/failures/*.parquet",
		"1 cannot be used as it is: mend prompts.csv:6", why)
	s.says(s.run(1, "run", "job.yaml"), "nothing to do", "4 done, 1 failed", "1 of 5 rows failed", why)
	s.says(s.run(3, "run", "job.yaml", "--output", "strict", "--set", "on_error.stop_after=0",
		"--set", "on_error.min_rows=0"), "stop: 1 of the first 5 rows failed", "on_error.stop_after")
	s.write("prompts.csv", threePrompts)
	s.says(s.run(0, "run", "job.yaml", "--set", "resources.workers=3", "--set", "resources.threads=2"),
		"done", "skipped", "more workers than threads save no time", "workers: 3; threads: 2")
	s.says(s.run(0, "version"), "latentbeam "+release)
	list := s.run(0, "stages")
	s.says(list, "encode_text", "denoise", "decode_vae", "guard", "encode_video", "TAKES", "tp_size, pp_size")
	for line := range strings.Lines(list) {
		if len(line) > 110 {
			t.Errorf("the list of stages has a line of %d characters, want at most 110: %s", len(line), line)
		}
	}
	s.says(s.run(0, "--help"), "run", "retry", "init", "stages", "version")
}

// TestRetry: retry needs only the output, also after it was moved. It computes failed rows and, with a higher limit, new rows.
func TestRetry(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts+"d,a red circle,,\n")
	s.run(0, "run", "job.yaml", "--limit", "2")
	elsewhere := newShell(t)
	out := filepath.Join(s.dir, "out")
	for range 2 { // a second retry must also work
		elsewhere.says(elsewhere.run(0, "retry", out), "nothing to do: all 2 rows")
	}
	elsewhere.says(elsewhere.run(1, "retry", out, "--limit", "4"), "1 of 4 rows failed")
	moved := filepath.Join(s.dir, "moved")
	if err := os.Rename(out, moved); err != nil {
		t.Fatal(err)
	}
	elsewhere.says(elsewhere.run(1, "retry", moved), "nothing to do: all 4 rows", moved)
	if s.exists("out") {
		t.Error("retry created an output at the old place")
	}
	elsewhere.says(elsewhere.run(2, "retry", elsewhere.dir), "not the output of a job")
}

// TestDryRunWritesNothing: a dry run says which rows are new, done and stale, and why rows fail. It writes nothing.
func TestDryRunWritesNothing(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	numbers := func(want string) string {
		t.Helper()
		before := s.list()
		text := s.run(0, "run", "job.yaml", "--dry-run")
		if after := s.list(); !slices.Equal(before, after) {
			t.Errorf("the dry run has changed files to\n%s\nbefore it were\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
		}
		lines := strings.Split(text, "\n")
		got := strings.Join(strings.Fields(lines[0]+" "+lines[1]), " ")
		if want = "rows new done failed stale " + want; got != want {
			t.Errorf("the dry run prints %s, want %s", got, want)
		}
		return text
	}
	numbers("3 3 0 0 0")
	s.run(0, "run", "job.yaml")
	numbers("3 0 3 0 0")
	edited := strings.Replace(threePrompts, "blue square", "red square", 1)
	s.write("prompts.csv", edited+"d,a green triangle\ne,x,,\n")
	s.says(numbers("5 1 3 1 1"), "failed", "prompts.csv:6: read: ") // rows c and d are equal
}

// TestEqualRowsAreCounted: equal rows are computed once, but counted as often as the table has them.
func TestEqualRowsAreCounted(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts+"d,a green triangle\n")
	for _, want := range []string{"done skipped failed pending time 4 0 0 0 ", "nothing to do: all 4 rows"} {
		if text := strings.Join(strings.Fields(s.run(0, "run", "job.yaml")), " "); !strings.Contains(text, want) {
			t.Errorf("the text does not contain %q: %s", want, text)
		}
	}
}
