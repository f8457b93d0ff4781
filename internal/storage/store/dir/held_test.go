package dir

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"latentbeam/internal/storage/store"
)

func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	holder, other := openAt(t, path), openAt(t, path)
	if err := other.Held(t.Context(), ".lock"); err != nil || exists(t, other, ".lock") {
		t.Errorf("a lock that was never taken: %v, it is there: %v", err, exists(t, other, ".lock"))
	}
	release, err := holder.Lock(t.Context(), ".lock", "run a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var locked *store.LockedError
	for range 2 {
		if err := other.Held(t.Context(), ".lock"); !errors.As(err, &locked) || locked.Owner.Name != "run a.yaml" {
			t.Errorf("while it is held: %v", err)
		}
	}
	release()
	if err := other.Held(t.Context(), ".lock"); err != nil {
		t.Errorf("after release: %v", err)
	}
	if again, err := other.Lock(t.Context(), ".lock", "run b.yaml"); err != nil {
		t.Errorf("looking took it: %v", err)
	} else {
		again()
	}
}

// TestCleanTempsOfOtherLocks: files of a dead run under another lock go only when that lock is named.
func TestCleanTempsOfOtherLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	dead := openAt(t, path)
	unlock, err := dead.Lock(t.Context(), ".0-of-2-lock", "a shard")
	if err != nil {
		t.Fatal(err)
	}
	left, err := dead.createTemp("videos")
	if err != nil {
		t.Fatal(err)
	}
	defer left.file.Close()
	unlock()
	d := openAt(t, path)
	release, err := d.Lock(t.Context(), ".lock", "all rows")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, c := range []struct {
		free []string
		want int
	}{{nil, 0}, {[]string{".1-of-2-lock"}, 0}, {[]string{".1-of-2-lock", ".0-of-2-lock"}, 1}} {
		if n, err := d.CleanTemps(t.Context(), c.free...); n != c.want || err != nil {
			t.Errorf("free %q: cleaned %d, %v; want %d", c.free, n, err, c.want)
		}
	}
}

func TestFiles(t *testing.T) {
	d := openAt(t, filepath.Join(t.TempDir(), "out"))
	put(t, d, "b", "a/x", "a/b/y", "a/w")
	temp, err := d.createTemp("a/z")
	if err != nil {
		t.Fatal(err)
	}
	defer temp.discard()
	for directory, want := range map[string][]string{"": {"b"}, "a/": {"a/w", "a/x"}, "none/": nil} {
		if got, err := store.Names(t.Context(), d, directory, store.Flat); err != nil || !slices.Equal(got, want) {
			t.Errorf("files of %s: %q, %v; want %q", directory, got, err, want)
		}
	}
}

func openAt(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func put(t *testing.T, d *Dir, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := d.Put(t.Context(), store.Object{Name: name, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
}
