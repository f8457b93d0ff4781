package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// TestNoLocks: a file system without locks is a usage error, and the message says what to do.
func TestNoLocks(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, no := range []error{syscall.ENOSYS, syscall.EOPNOTSUPP} {
		err := lockFile{d, ".lock"}.failed(fmt.Errorf("flock: %w", no))
		if fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), "has no locks (flock)") ||
			!strings.Contains(err.Error(), "mount it with locks") {
			t.Errorf("%v: %v", no, err)
		}
	}
	if err := (lockFile{d, ".lock"}).failed(syscall.EIO); fault.ExitCode(err) != fault.ExitTryAgain {
		t.Errorf("another error: %v", err)
	}
}

// lost is a guard whose lock another host has acquired.
type lost struct{}

func (lost) Lock(context.Context, string, string) (func(), error) { return func() {}, nil }
func (lost) Held(context.Context, string) error                   { return nil }
func (lost) Mine(context.Context) error                           { return store.ErrLost }

// TestLostGuard: without the lock, every call that writes returns an error.
func TestLostGuard(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Put(t.Context(), store.Object{Name: "old", Data: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	d.Guard(lost{}, true)
	release, err := d.Lock(t.Context(), ".lock", "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	_, cleanErr := d.CleanTemps(t.Context())
	for call, err := range map[string]error{
		"Put": d.Put(t.Context(), store.Object{Name: "new"}), "Remove": d.Remove(t.Context(), "old"), "CleanTemps": cleanErr,
		"Replace": d.Replace(t.Context(), "old", func(io.Writer) error { return nil }),
	} {
		if !errors.Is(err, store.ErrLost) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if names, err := store.Names(t.Context(), d, "", store.Deep); err != nil || strings.Join(names, " ") != ".lock old" {
		t.Errorf("%q, %v", names, err)
	}
}
