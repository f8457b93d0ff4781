package dir

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"latentbeam/internal/storage/store"
)

// nobody is the id of a user without rights.
const nobody = 65534

// TestCleanSkipsWhatIsNotOurs: CleanTemps skips a directory that this user may not read, such as lost+found of a volume.
func TestCleanSkipsWhatIsNotOurs(t *testing.T) {
	out := t.TempDir()
	for name, mode := range map[string]os.FileMode{".": 0o777, "lost+found": 0o700, "videos": 0o777} {
		if err := os.MkdirAll(filepath.Join(out, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(out, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	release, err := d.Lock(t.Context(), ".lock", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	left := filepath.Join(out, "videos", store.TempPrefix+scopeOf(".lock")+"-0123-1")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		lost := filepath.Join(out, "lost+found")
		if err := os.Chmod(lost, 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(lost, 0o700)
	}
	done := make(chan error)
	n := 0
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		err := error(nil)
		if os.Geteuid() == 0 { // who may read everything
			err = unix.Setfsuid(nobody)
		}
		if err == nil {
			n, err = d.CleanTemps(t.Context())
		}
		done <- err
	}()
	if err := <-done; n != 1 || err != nil {
		t.Errorf("%d files removed, %v", n, err)
	}
}
