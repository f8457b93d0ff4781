package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// act is an environment variable. It says what this test binary does when a test starts it as a child.
const act = "LATENTBEAM_TEST_CHILD"

// linger, as the only argument, makes this test binary sleep. A child without an environment can be given it.
const linger = "linger"

// moreActs has further values of act, for tests that run only on some systems.
var moreActs map[string]func()

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == linger {
		time.Sleep(time.Hour)
	}
	if behave := moreActs[os.Getenv(act)]; behave != nil {
		behave()
		os.Exit(0)
	}
	switch os.Getenv(act) {
	case "":
		os.Exit(m.Run())
	case "flood": // writes as long as the output is read
		for {
			if _, err := os.Stdout.Write(make([]byte, 1<<16)); err != nil {
				os.Exit(3)
			}
		}
	case "much": // writes more than fits into a pipe
		os.Stdout.Write(make([]byte, 1<<20))
		fmt.Fprint(os.Stderr, "all is written")
		os.Exit(4)
	case "silent":
		fmt.Println("begin")
		time.Sleep(time.Hour)
	case "slow": // reads its input slowly
		for in := bufio.NewReaderSize(os.Stdin, 16); ; time.Sleep(5 * time.Millisecond) {
			if _, err := in.Discard(1 << 14); err != nil {
				os.Exit(0)
			}
		}
	case "parent": // leaves a process that keeps its output open
		child := exec.Command(os.Args[0])
		child.Env, child.Stdout = append(os.Environ(), act+"=silent"), os.Stdout
		if err := child.Start(); err != nil {
			panic(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// start starts this test binary as a child.
func start(t *testing.T, ctx context.Context, what string, c Command) *Child {
	t.Helper()
	c.Path, c.Env = os.Args[0], append(os.Environ(), act+"="+what)
	p, err := Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() })
	return p
}

// within fails the test if f does not return within 10 seconds.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the call did not return within 10 s")
	}
}

// TestStopWhileTheChildWrites: Stop returns although the child writes without an end and nobody reads. Reading fails afterwards.
func TestStopWhileTheChildWrites(t *testing.T) {
	p := start(t, t.Context(), "flood", Command{Pipe: true, Stall: time.Minute})
	if _, err := io.ReadFull(p, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	within(t, func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := p.Read(make([]byte, 1)); err == nil {
			t.Error("Read after Stop returned no error")
		}
	})
}

// TestWaitDrains: Wait returns although nobody has read the output of the child, which is more than a pipe holds. Head keeps the first bytes
// of what the child writes to stderr.
func TestWaitDrains(t *testing.T) {
	stderr := &Head{Most: 6}
	p := start(t, t.Context(), "much", Command{Pipe: true, Stderr: stderr})
	within(t, func() {
		var status *ExitError
		if err := p.Wait(); !errors.As(err, &status) || status.Status != 4 {
			t.Errorf("the child ended with %v, want exit status 4", err)
		}
	})
	if kept, whole := stderr.Bytes(); string(kept) != "all is" || whole {
		t.Errorf("Head kept %q (complete: %v), want %q, not complete", kept, whole, "all is")
	}
}

// TestStall: a child that neither writes output nor reads input for the time Stall is stopped with ErrStalled.
func TestStall(t *testing.T) {
	const stall = 30 * time.Millisecond
	p := start(t, t.Context(), "silent", Command{Pipe: true, Stall: stall})
	within(t, func() {
		if out, err := io.ReadAll(p); err != nil || strings.TrimSpace(string(out)) != "begin" {
			t.Errorf("read %q, %v; want the line begin", out, err)
		}
		if err := p.Wait(); !errors.Is(err, ErrStalled) {
			t.Errorf("a child whose output is read and that writes nothing more: got %v, want ErrStalled", err)
		}
	})
	p = start(t, t.Context(), "silent", Command{Stdout: io.Discard, Stall: stall})
	within(t, func() {
		if err := p.Wait(); !errors.Is(err, ErrStalled) {
			t.Errorf("a child whose output goes to a writer: got %v, want ErrStalled", err)
		}
	})
	// Reading input is progress.
	p = start(t, t.Context(), "slow", Command{Stdin: strings.NewReader(strings.Repeat("x", 1<<20)), Stall: 200 * time.Millisecond})
	within(t, func() {
		if err := p.Wait(); err != nil {
			t.Errorf("a child that reads its input slowly ended with %v", err)
		}
	})
}

// TestContextKills: the end of the context kills the child, and Wait returns the cause. No child is started afterwards.
func TestContextKills(t *testing.T) {
	why := errors.New("the job ends")
	ctx, cancel := context.WithCancelCause(t.Context())
	p := start(t, ctx, "silent", Command{Pipe: true})
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	within(t, func() {
		if err := p.Wait(); !errors.Is(err, why) {
			t.Errorf("the child ended with %v, want %v", err, why)
		}
	})
	if _, err := Start(ctx, Command{Path: os.Args[0]}); !errors.Is(err, why) {
		t.Errorf("Start after the end of the context: got %v, want %v", err, why)
	}
}

// TestGroupEndsWithTheChild: a child ends and leaves a process that keeps its output open. That process is killed, so that reading ends.
func TestGroupEndsWithTheChild(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("this system has no process groups")
	}
	p := start(t, t.Context(), "parent", Command{Pipe: true})
	within(t, func() {
		if _, err := io.ReadAll(p); err != nil {
			t.Error(err)
		}
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestOutput: Output returns what a program writes, and an error if that is more than a given number of bytes, or if the program fails or
// does not exist.
func TestOutput(t *testing.T) {
	c := Command{Path: os.Args[0], Env: append(os.Environ(), act+"=much")}
	if out, err := Output(t.Context(), c, 1<<20); len(out) != 1<<20 || err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("got %d bytes, %v; want 1 MiB and exit status 4", len(out), err)
	}
	if _, err := Output(t.Context(), c, 1000); err == nil || !strings.Contains(err.Error(), "more than 1000 bytes") {
		t.Errorf("more than 1000 bytes: got %v", err)
	}
	if _, err := Output(t.Context(), Command{Path: "no-such-program"}, 1); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("a program that does not exist: got %v, want ErrNotFound", err)
	}
}
