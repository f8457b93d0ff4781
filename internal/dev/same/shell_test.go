package same

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// shell runs the script of a case in a directory.
type shell struct {
	t      *testing.T
	binary string
	dir    string
	env    []string
	addrs  map[string]string // addresses of workers, by name

	given   map[string]bool // files that the case wrote itself
	ignored []string        // beginnings of paths that are not compared

	cpu       time.Duration                // processor time of the calls
	before    state                        // state after the last call
	calls     []callResult                 // changes of each call
	tables    map[string]table             // parsed tables, by digest of the file
	summaries map[string]map[string]string // fields of the last summary.json, by path
	printed   map[string]bool              // lines that the case has printed
}

// newShell makes the directory of a case, with a link to the testdata of the repository. class sets the numeric class of the program.
func newShell(t *testing.T, binary, class string) *shell {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := repository(t)
	if err := os.Symlink(filepath.Join(root, "testdata"), filepath.Join(dir, "testdata")); err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, binary: binary, dir: dir, env: cleanEnv(os.Environ()), given: map[string]bool{},
		addrs: map[string]string{}, tables: map[string]table{}, summaries: map[string]map[string]string{}, printed: map[string]bool{}}
	s.setenv("LATENTBEAM_RUNTIME_DIR=" + t.TempDir()) // for the lock files of devices
	if class == "cuda" {
		s.setenv("LATENTBEAM_LIBCUDA=" + filepath.Join(root, "build/libfakecuda.so"))
		class = "go" // class of the work that stays on the processor
	}
	s.setenv("LATENTBEAM_CPU=" + class)
	return s
}

// cleanEnv returns env without the variables that change a run.
func cleanEnv(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		for _, prefix := range []string{"LATENTBEAM_", "JOB_COMPLETION", "SLURM_", "FAKE_", "LB_", "CUDA_", "GO"} {
			if strings.HasPrefix(v, prefix) {
				return true
			}
		}
		return false
	})
}

// setenv sets NAME=VALUE; an empty value removes the name.
func (s *shell) setenv(pair string) {
	name, value, _ := strings.Cut(pair, "=")
	s.env = slices.DeleteFunc(s.env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	if value != "" {
		s.env = append(s.env, pair)
	}
}

// path returns the full path of a file of the case.
func (s *shell) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// write writes a file of the case, which is not compared afterwards.
func (s *shell) write(name string, data []byte) {
	s.t.Helper()
	s.given[name] = true
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755); err != nil {
		s.t.Fatal(err)
	}
	mode := os.FileMode(0o644)
	if name == "token" {
		mode = 0o600
	}
	if err := os.WriteFile(s.path(name), data, mode); err != nil {
		s.t.Fatal(err)
	}
}

// read reads a file of the case.
func (s *shell) read(name string) []byte {
	s.t.Helper()
	data, err := os.ReadFile(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// remove removes the files that match a glob. At least one file must match.
func (s *shell) remove(glob string) {
	s.t.Helper()
	paths, err := filepath.Glob(s.path(glob))
	if err != nil || len(paths) == 0 {
		s.t.Fatalf("remove %s: no such file, %v", glob, err)
	}
	for _, p := range paths {
		if err := os.Remove(p); err != nil {
			s.t.Fatal(err)
		}
	}
}

// call runs the program to its end and returns its exit code and its output in canonical form.
func (s *shell) call(args []string) string {
	s.t.Helper()
	for i, a := range args {
		for name, addr := range s.addrs {
			a = strings.ReplaceAll(a, "$"+name, addr)
		}
		args[i] = a
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(s.t.Context(), s.binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	s.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	text := s.brief(s.canonicalOutput(args, stdout.String()))
	for line := range strings.Lines(s.brief(s.canonicalOutput(args, stderr.String()))) {
		text += "2> " + line
	}
	return text + fmt.Sprintf("exit %d\n", cmd.ProcessState.ExitCode())
}

// startWorker starts a worker that runs until the end of the case.
func (s *shell) startWorker(name string, args []string) {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.t.TempDir(), name))
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	args = append([]string{"worker", "--listen", "127.0.0.1:0", "--token-file", "token"}, args...)
	cmd := exec.Command(s.binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var text []byte
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		text, _ = os.ReadFile(log.Name())
		if addr, ok := strings.CutPrefix(string(text), "listening at "); ok && strings.HasSuffix(addr, "\n") {
			s.addrs[name] = strings.TrimSpace(addr)
			return
		}
	}
	s.t.Fatalf("worker %s does not listen: %s", name, text)
}
