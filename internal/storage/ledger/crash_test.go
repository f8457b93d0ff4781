//go:build unix

package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"latentbeam/internal/storage/store/dir"
	"latentbeam/schemas/fault"
)

// The child of a crash test is this test binary, told by its environment what to do.
const (
	childDirEnv   = "LATENTBEAM_TEST_CRASH_DIR"
	childCountEnv = "LATENTBEAM_TEST_CRASH_COUNT"
	childKillEnv  = "LATENTBEAM_TEST_CRASH_KILL" // "point:hit", empty: somebody else kills
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDirEnv); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(path string) error {
	n, err := strconv.Atoi(os.Getenv(childCountEnv))
	if err != nil {
		return err
	}
	if point, hit, ok := strings.Cut(os.Getenv(childKillEnv), ":"); ok {
		left, err := strconv.Atoi(hit)
		if err != nil {
			return err
		}
		fault.SetHook(func(name string) {
			if name == point {
				if left--; left == 0 {
					syscall.Kill(os.Getpid(), syscall.SIGKILL)
					select {}
				}
			}
		})
	}
	d, err := dir.Open(path)
	if err != nil {
		return err
	}
	return work(context.Background(), d, n, true, func(int) {})
}

// startChild runs the worker in a process of its own.
func startChild(t *testing.T, dir string, n int, kill string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(),
		childDirEnv+"="+dir, childCountEnv+"="+strconv.Itoa(n), childKillEnv+"="+kill)
	out := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = out, out
	must(t, cmd.Start())
	return cmd, out
}

// killed reports whether a finished process died of SIGKILL.
func killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// hits counts how often an undisturbed run meets each point, on an output that prepare has been at.
func hits(t *testing.T, n int, prepare func(path string)) map[string]int {
	counts := map[string]int{}
	d := openDir(t)
	prepare(d.Path())
	fault.SetHook(func(name string) { counts[name]++ })
	defer fault.SetHook(nil)
	must(t, work(t.Context(), d, n, true, func(int) {}))
	if wrong := verify(t, d, n); wrong != nil {
		t.Fatalf("undisturbed run: %v", wrong)
	}
	return counts
}

// TestKillAtEveryPoint kills the worker at every hit of every fault point of this package and of
// store, and lets another life finish the work.
func TestKillAtEveryPoint(t *testing.T) {
	const n = 5
	counts := hits(t, n, func(string) {})
	var wg sync.WaitGroup
	slot := make(chan bool, 2)
	kills := 0
	for _, point := range fault.Names() {
		if !strings.HasPrefix(point, "store.") && !strings.HasPrefix(point, "ledger.") {
			continue
		}
		if counts[point] == 0 {
			t.Errorf("the worker never comes to %s", point)
		}
		for hit := range counts[point] {
			kills++
			slot <- true
			wg.Go(func() {
				killAndFinish(t, n, fmt.Sprintf("%s:%d", point, hit+1))
				<-slot
			})
		}
	}
	wg.Wait()
	t.Logf("%d kills at %d points", kills, len(counts))
}

func killAndFinish(t *testing.T, n int, kill string) {
	path, err := os.MkdirTemp(t.TempDir(), "kill")
	if err != nil {
		t.Error(err)
		return
	}
	cmd, out := startChild(t, path, n, kill)
	if err := cmd.Wait(); !killed(err) {
		t.Errorf("%s=%s: the child ended with %v: %s", childKillEnv, kill, err, out)
		return
	}
	d, err := dir.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer d.Close()
	if err := work(t.Context(), d, n, true, func(int) {}); err != nil {
		t.Errorf("%s=%s: the next life: %v", childKillEnv, kill, err)
	}
	if wrong := verify(t, d, n); wrong != nil {
		t.Errorf("%s=%s: %v", childKillEnv, kill, wrong)
	}
}

// TestKillWhileMending kills a worker on an output with two damaged segments, at every hit of every point on the way,
// from mending to the end. What was sound is never lost, and the next life finishes.
func TestKillWhileMending(t *testing.T) {
	const n = 6
	damage := func(path string) {
		d, err := dir.Open(path)
		if err == nil {
			defer d.Close()
			err = work(t.Context(), d, n, false, func(int) {})
		}
		files, _ := filepath.Glob(filepath.Join(path, "ledger", "*.seg"))
		for i := 0; err == nil && i < 2; i++ {
			var data []byte
			if data, err = os.ReadFile(files[i]); err == nil {
				data[headerBytes+i] ^= 1 // the first record of two
				err = os.WriteFile(files[i], data, 0o644)
			}
		}
		if err != nil || len(files) != n/2 {
			t.Errorf("prepare: %v, files %q", err, files)
		}
	}
	// sound lists the elements that the output has now.
	sound := func(path string) (all []int) {
		d, err := dir.Open(path)
		must(t, err)
		defer d.Close()
		l := openLedger(t, d)
		for i := range n {
			if _, status, err := l.Lookup(keyOf(i)); err == nil && status != Absent {
				all = append(all, i)
			}
		}
		return all
	}
	kills := 0
	for point, count := range hits(t, n, damage) {
		for hit := range count {
			path := t.TempDir()
			damage(path)
			if got := sound(path); !slices.Equal(got, []int{1, 3, 4, 5}) {
				t.Fatalf("sound before: %v", got)
			}
			kill := fmt.Sprintf("%s:%d", point, hit+1)
			cmd, out := startChild(t, path, n, kill)
			if err := cmd.Wait(); !killed(err) {
				t.Errorf("%s: the child ended with %v: %s", kill, err, out)
			}
			for _, i := range []int{1, 3, 4, 5} {
				if !slices.Contains(sound(path), i) {
					t.Errorf("%s: element %d is lost", kill, i)
				}
			}
			finish(t, path, n)
			kills++
		}
	}
	t.Logf("%d kills", kills)
}

// TestKillAtRandomTimes kills one worker after another on the same output, and begins a new one
// whenever a worker was fast enough to finish.
func TestKillAtRandomTimes(t *testing.T) {
	const n, kills = elementsMax, 50
	path := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	dead, lives := 0, 0
	for ; dead < kills && lives < 20*kills; lives++ {
		cmd, out := startChild(t, path, n, "")
		timer := time.AfterFunc(time.Duration(5+rng.IntN(55))*time.Millisecond, func() { cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		switch {
		case killed(err):
			dead++
		case err != nil:
			t.Fatalf("seed %d: life %d ended with %v: %s", seed, lives, err, out)
		default:
			finish(t, path, n)
			path = t.TempDir()
		}
	}
	finish(t, path, n)
	if dead < kills {
		t.Errorf("only %d of %d lives could be killed", dead, lives)
	}
	t.Logf("seed %d: %d kills in %d lives", seed, dead, lives)
}

// finish lets a last life end the work in path and checks everything.
func finish(t *testing.T, path string, n int) {
	t.Helper()
	d, err := dir.Open(path)
	must(t, err)
	defer d.Close()
	must(t, work(t.Context(), d, n, true, func(int) {}))
	if wrong := verify(t, d, n); wrong != nil {
		t.Errorf("%v", wrong)
	}
}
