package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latentbeam/internal/system"
)

// The tests of this file start a child with a keeper: a process between job and child that kills all descendants of the child when the child
// or the job ends. "Deserters" are descendants that have left the child's process group and session.
func init() {
	moreActs = map[string]func(){
		"desert":  func() { desert(); fmt.Println("done") },
		"bystand": func() { desert(); time.Sleep(time.Hour) },
		"betray": func() { // kills its keeper, after time for the creation of its control group
			time.Sleep(200 * time.Millisecond)
			desert()
			_ = unix.Kill(os.Getppid(), unix.SIGKILL)
			time.Sleep(time.Hour)
		},
		"segfault": func() {
			_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			time.Sleep(time.Hour)
		},
		"sign": func() { // sends signals to its parent, which is the keeper and must ignore them
			_ = unix.Kill(os.Getppid(), unix.SIGTERM)
			_ = unix.Kill(os.Getppid(), unix.SIGINT)
			time.Sleep(50 * time.Millisecond)
			os.Exit(7)
		},
		"descriptors": func() { // lists its open files
			all, _ := os.ReadDir("/proc/self/fd")
			for _, f := range all {
				to, err := os.Readlink("/proc/self/fd/" + f.Name())
				fmt.Println(f.Name(), to, err)
			}
		},
		"job": func() { // starts a program and prints the ids of its processes
			p, err := Start(context.Background(), Command{Path: os.Args[0], Env: append(os.Environ(), act+"=bystand"), Sweep: true, Stdout: os.Stdout})
			if err != nil {
				panic(err)
			}
			fmt.Println(p.PID())
			time.Sleep(time.Hour)
		},
	}
}

// desert starts two deserters, a child, and a grandchild whose parent has ended, and prints their process ids. Both have no environment.
func desert() {
	leave := &syscall.SysProcAttr{Setsid: true}
	child := exec.Command(os.Args[0], linger)
	child.Env, child.SysProcAttr = []string{}, leave
	if err := child.Start(); err != nil {
		panic(err)
	}
	fmt.Println(child.Process.Pid)
	grandchild, err := exec.Command("sh", "-c", `env -i setsid "$0" `+linger+` >/dev/null 2>&1 & echo $!`, os.Args[0]).Output()
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(grandchild)
}

// readPIDs reads n process ids, one a line.
func readPIDs(t *testing.T, from *bufio.Scanner, n int) (pids []int) {
	t.Helper()
	for len(pids) < n && from.Scan() {
		pid, err := strconv.Atoi(from.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) < n {
		t.Fatalf("%d of %d process ids were printed", len(pids), n)
	}
	return pids
}

// alive returns the processes that still exist, without zombies.
func alive(pids []int) (found []int) {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, rest, _ := strings.Cut(string(stat), ") "); err == nil && !strings.HasPrefix(rest, "Z") {
			found = append(found, pid)
		}
	}
	return found
}

// TestDesertersEndWithTheirProgram: the child ends by itself, and its deserters are killed before Wait returns.
func TestDesertersEndWithTheirProgram(t *testing.T) {
	p := start(t, t.Context(), "desert", Command{Pipe: true, Sweep: true})
	out, err := io.ReadAll(p)
	if err != nil {
		t.Fatal(err)
	}
	pids := readPIDs(t, bufio.NewScanner(strings.NewReader(string(out))), 2)
	within(t, func() {
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
	})
	if left := alive(pids); len(left) > 0 {
		t.Errorf("%v of %v are left", left, pids)
	}
}

// TestDesertersEndWithAKilledProgram: Stop kills the child and its deserters.
func TestDesertersEndWithAKilledProgram(t *testing.T) {
	p := start(t, t.Context(), "bystand", Command{Pipe: true, Sweep: true})
	pids := append(readPIDs(t, bufio.NewScanner(p), 2), p.PID())
	if n := len(alive(pids)); n != 3 {
		t.Fatalf("%d of 3 processes run", n)
	}
	within(t, func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	if left := alive(pids); len(left) > 0 {
		t.Errorf("%v of %v are left", left, pids)
	}
}

// TestDesertersEndWithAKilledJob: if the job is killed, the kernel and the keeper still end all descendants.
func TestDesertersEndWithAKilledJob(t *testing.T) {
	job := exec.Command(os.Args[0])
	job.Env = append(os.Environ(), act+"=job")
	out, err := job.StdoutPipe()
	if err == nil {
		err = job.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	pids := readPIDs(t, bufio.NewScanner(out), 3)
	if n := len(alive(pids)); n != 3 {
		t.Errorf("%d of 3 processes run", n)
	}
	if err := job.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = job.Wait()
	for late := time.Now().Add(10 * time.Second); len(alive(pids)) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%v of %v are left", alive(pids), pids)
		}
	}
}

// TestDesertersEndWithoutAKeeper: a program that kills its keeper leaves no processes either, if a control group can be created.
func TestDesertersEndWithoutAKeeper(t *testing.T) {
	group, err := system.NewGroup(0)
	if err != nil {
		t.Skipf("NOT VERIFIED: %v", err)
	}
	if err := group.Remove(); err != nil {
		t.Fatal(err)
	}
	p := start(t, t.Context(), "betray", Command{Pipe: true, Sweep: true})
	pids := append(readPIDs(t, bufio.NewScanner(p), 2), p.PID())
	within(t, func() {
		if err := p.Wait(); err == nil || !strings.Contains(err.Error(), "its keeper has ended before it") {
			t.Errorf("the program ended with %v, want an error about its keeper", err)
		}
	})
	for late := time.Now().Add(10 * time.Second); len(alive(pids)) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%v of %v are left", alive(pids), pids)
		}
	}
}

// TestKeeperTellsHowItsChildEnded: a child with a keeper ends with the same error as without one.
func TestKeeperTellsHowItsChildEnded(t *testing.T) {
	for what, want := range map[string]ExitError{"much": {Status: 4}, "segfault": {-1, unix.SIGKILL}, "sign": {Status: 7}} {
		p := start(t, t.Context(), what, Command{Stdout: io.Discard, Sweep: true})
		within(t, func() {
			var how *ExitError
			if err := p.Wait(); !errors.As(err, &how) || *how != want {
				t.Errorf("%s ended with %v, want %v", what, err, &want)
			}
		})
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"no-such-program": exec.ErrNotFound, "/no/such": os.ErrNotExist, t.TempDir(): os.ErrPermission,
		script: unix.ENOEXEC} {
		if _, err := Start(t.Context(), Command{Path: path, Sweep: true}); !errors.Is(err, want) {
			t.Errorf("Start of %s: got %v, want %v", path, err, want)
		}
	}
}

// TestKeeperPassesDescriptors: a child has the same open files with and without a keeper, and the keeper keeps none of them open.
func TestKeeperPassesDescriptors(t *testing.T) {
	var seen [2][]string
	for i, sweep := range []bool{false, true} {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		p := start(t, t.Context(), "descriptors", Command{Pipe: true, Sweep: sweep, Files: []*os.File{out}})
		text, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			name, to, _ := strings.Cut(line, " ")
			if seen[i] = append(seen[i], name); name == "3" && !strings.HasPrefix(to, "pipe:") {
				t.Errorf("descriptor 3 is not the pipe: %s", line)
			}
		}
		if _, err := in.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the child has ended, but its end of the pipe is still open: %v", err)
		}
	}
	if !slices.Equal(seen[0], seen[1]) || len(seen[0]) < 4 {
		t.Errorf("open descriptors %v without a keeper, %v with one", seen[0], seen[1])
	}
}
