//go:build unix

package jobtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"latentbeam/schemas/fault"
	"latentbeam/stages/exec/exectest"
)

// childEnv is the variable with the Life, as JSON, that this test binary runs as a child of a crash test.
const childEnv = "LATENTBEAM_TEST_LIFE"

// Life is a job that a child process runs until it is killed.
type Life struct {
	Prompts, Out  string
	Input, Stages string // as in Job; Stages "": text to video with a pause
	Shard, Shards int
	Sets          []string
	Pause         time.Duration // how long the stage pause sleeps, and the stage slow for each latent
	Point         string        // fault point at which the process kills itself; "": the test kills it
	Hit           int           // the process kills itself at this hit of the point
}

// Main is the TestMain of every suite. It runs the tests, unless this process was started as the program of a stage or as the
// child of a crash test.
func Main(m *testing.M) {
	exectest.Main()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if text := os.Getenv(childEnv); text != "" {
		if err := lead(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(fault.ExitCode(err))
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// lead runs the job in this process and prints how often it reached each fault point.
func lead(text string) error {
	var l Life
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return err
	}
	hits := map[string]int{}
	var mu sync.Mutex
	fault.SetHook(func(name string) {
		mu.Lock() // stays locked when this process kills itself, so that no other goroutine continues
		hits[name]++
		if name == l.Point && hits[name] == l.Hit {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		mu.Unlock()
	})
	if _, err := l.Job().Run(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(hits)
}

// Job returns the job that the child process runs.
func (l Life) Job() Job {
	j := Job{Prompts: l.Prompts, Input: l.Input, Out: l.Out, Sets: l.Sets, Stages: l.Stages,
		Specs: Specs(PauseSpec(l.Pause), slowSpec(l.Pause))}
	if j.Stages == "" {
		j.Stages = "[pause, encode_text, denoise, decode_vae, encode_video]"
	}
	j.Opts.Shard, j.Opts.Shards = l.Shard, l.Shards
	return j
}

// Start starts a child process that runs the job.
func (l Life) Start(t *testing.T) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	js, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(js))
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// Killed reports whether a finished process died of SIGKILL.
func Killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Program returns an exec stage whose program is the test binary. It works in a temporary directory of the test.
func Program(t *testing.T, takes, gives, more string) string {
	t.Helper()
	scratch := t.TempDir()
	t.Cleanup(func() {
		if left, _ := filepath.Glob(filepath.Join(scratch, "*")); len(left) > 0 {
			t.Errorf("files are left: %v", left)
		}
	})
	return "{exec: " + exectest.Options(takes, gives, t.TempDir(), fmt.Sprintf(", scratch: %q%s", scratch, more)) + "}"
}
