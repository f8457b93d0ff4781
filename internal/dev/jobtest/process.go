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

// childEnv holds, as JSON, the life that this test binary is to lead as a child of a crash test.
const childEnv = "LATENTBEAM_TEST_LIFE"

// Life is a job that a child process runs until it is killed.
type Life struct {
	Prompts, Out  string
	Input, Stages string // as in Job; Stages "": with a pause
	Shard, Shards int
	Sets          []string
	Pause         time.Duration // of the row that waits, and of each latent in the stage "slow"
	Point         string        // kill at this fault point, "": somebody else kills
	Hit           int           // at its n-th hit
}

// Main is the TestMain of every suite: where this process was started as a program of a stage, or to run a job until it is
// killed, it is that; else it runs the tests.
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

// lead runs the job in this process and prints how often it met each fault point.
func lead(text string) error {
	var l Life
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return err
	}
	hits := map[string]int{}
	var mu sync.Mutex
	fault.SetHook(func(name string) {
		mu.Lock() // stays locked when this process is to die, so that no other goroutine goes on
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

// Job is the job that the child process runs.
func (l Life) Job() Job {
	j := Job{Prompts: l.Prompts, Input: l.Input, Out: l.Out, Sets: l.Sets, Stages: l.Stages,
		Specs: Specs(PauseSpec(l.Pause), slowSpec(l.Pause))}
	if j.Stages == "" {
		j.Stages = "[pause, encode_text, denoise, decode_vae, encode_video]"
	}
	j.Opts.Shard, j.Opts.Shards = l.Shard, l.Shards
	return j
}

// Start leads the life in a process of its own.
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

// Program is an exec stage of the test binary, which works in a scratch directory of the test.
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
