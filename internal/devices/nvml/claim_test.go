package nvml

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"latentbeam/schemas/fault"
)

// holder is an environment variable. It makes this test binary claim the device GPU-1 in the directory that it names, and wait to be killed.
const holder = "LATENTBEAM_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holder); dir != "" {
		if _, err := Claim(dir, "GPU-1", "the other"); err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
		} else {
			os.Stdout.WriteString("held\n")
		}
		bufio.NewReader(os.Stdin).ReadByte()
		return
	}
	os.Exit(m.Run())
}

// TestClaim: a device can be claimed once until it is released. The error of a second claim names the owner.
func TestClaim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	release, err := Claim(dir, "GPU-1", "run a")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Claim(dir, "GPU-1", "run b")
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Owner.PID != os.Getpid() || busy.Owner.What != "run a" {
		t.Fatalf("a second claim: %v", err)
	}
	if fault.ExitCode(err) != fault.ExitTryAgain || !strings.Contains(err.Error(), "(run a) since") {
		t.Errorf("a second claim: got %v (exit %d), want the owner's job and exit 75", err, fault.ExitCode(err))
	}
	other, err := Claim(dir, "MIG-2/3/0", "run b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	release()
	release() // a second call does nothing
	if again, err := Claim(dir, "GPU-1", "run b"); err != nil {
		t.Errorf("after the release: %v", err)
	} else {
		again()
	}
	for _, uuid := range []string{"", "../GPU", "a b", strings.Repeat("x", 200)} {
		if _, err := Claim(dir, uuid, ""); err == nil {
			t.Errorf("Claim accepted the UUID %q", uuid)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode()&fs.ModeSticky == 0 || info.Mode().Perm() != 0o777 {
		t.Errorf("the directory is %v, %v; want mode 1777, so that other users can claim devices there", info, err)
	}
}

// TestClaimRefusesLinks: a claim does not follow a symbolic link in the directory, which all users can write to.
func TestClaimRefusesLinks(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, "GPU-1.lock")); err != nil {
		t.Skip(err)
	}
	if _, err := Claim(dir, "GPU-1", "run"); err == nil {
		t.Error("Claim accepted a symbolic link as lock file")
	}
	if text, _ := os.ReadFile(victim); string(text) != "precious" {
		t.Errorf("the file behind the link was changed to %q", text)
	}
}

// TestKernelReleasesClaims: a device that another process has claimed is free again after that process was killed.
func TestKernelReleasesClaims(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holder+"="+dir)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other process: %q", line)
	}
	var busy *BusyError
	if _, err := Claim(dir, "GPU-1", "run"); !errors.As(err, &busy) || busy.Owner.PID != cmd.Process.Pid {
		t.Errorf("while another process holds it: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	release, err := Claim(dir, "GPU-1", "run")
	if err != nil {
		t.Fatalf("after it was killed: %v", err)
	}
	release()
}
