package dir

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

const holderEnv = "LATENTBEAM_TEST_LOCK_DIR"

// TestMain turns the test binary into a process that holds a lock, with a temporary file half
// written, until it is killed.
func TestMain(m *testing.M) {
	path := os.Getenv(holderEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	d, err := Open(path)
	if err == nil {
		_, err = d.Lock(context.Background(), ".lock", "run holder.yaml")
	}
	if err == nil {
		_, err = d.createTemp("stale")
	}
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("locked\n")
	select {}
}

func TestLockInProcess(t *testing.T) {
	d := openTest(t)
	other, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	release, err := d.Lock(t.Context(), ".lock", "run a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(t.Context(), ".lock2", "run a.yaml"); err == nil {
		t.Error("one Dir took two locks")
	}
	_, err = other.Lock(t.Context(), ".lock", "run b.yaml")
	var locked *store.LockedError
	if !errors.As(err, &locked) || locked.Owner.PID != os.Getpid() || locked.Owner.Name != "run a.yaml" ||
		fault.ExitCode(err) != fault.ExitTryAgain {
		t.Fatalf("second lock: %v", err)
	}
	for _, part := range []string{"in use by pid", "on host", "since", "run a.yaml", d.Path()} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("message lacks %q: %v", part, err)
		}
	}
	release()
	release()
	again, err := other.Lock(t.Context(), ".lock", "run b.yaml")
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	again()
}

func TestLockDiesWithItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), holderEnv+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "locked\n" {
		t.Fatalf("child says %q", line)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, err = d.Lock(t.Context(), ".lock", "run mine.yaml")
	var locked *store.LockedError
	if !errors.As(err, &locked) || locked.Owner.PID != child.Process.Pid {
		t.Fatalf("while the child lives: %v", err)
	}
	if _, err := d.CleanTemps(t.Context()); err == nil {
		t.Error("cleaned without the lock")
	}
	child.Process.Kill()
	child.Wait()

	release, err := d.Lock(t.Context(), ".lock", "run mine.yaml")
	if err != nil {
		t.Fatalf("after the child's death: %v", err)
	}
	defer release()
	checkCleaning(t, d)
}

// checkCleaning: the dead child's temporary file goes; this run's, another shard's and a published
// file stay.
func checkCleaning(t *testing.T, d *Dir) {
	mine, err := d.createTemp("mine")
	if err != nil {
		t.Fatal(err)
	}
	shard, err := Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer shard.Close()
	unlock, err := shard.Lock(t.Context(), ".lock-1-of-2", "shard")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	theirs, err := shard.createTemp("theirs")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Put(t.Context(), store.Object{Name: "a/published", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	n, err := d.CleanTemps(t.Context())
	if err != nil || n != 1 {
		t.Errorf("cleaned %d, %v; want the child's one", n, err)
	}
	if len(leftovers(t, d)) != 2 || !exists(t, d, "a/published") {
		t.Errorf("left %v", leftovers(t, d))
	}
	mine.discard()
	theirs.discard()
}
