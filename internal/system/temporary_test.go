package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRemoveStale: removeStale removes temporary files and folders of this program that are older than staleAge, and nothing else.
func TestRemoveStale(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var made []string
	for _, use := range []string{Media, FFmpeg, Tiny} {
		f, err := TempFile(use, ".y4m")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		dir, err := TempDir(use)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "clip.mp4"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		made = append(made, f.Name(), dir)
	}
	other := filepath.Join(os.TempDir(), "other-media-1.y4m")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// removeAfter removes as if the time after had passed, and returns the names of the files that are left.
	removeAfter := func(after time.Duration) string {
		removeStale(os.TempDir(), time.Now().Add(after))
		names, _ := filepath.Glob(filepath.Join(os.TempDir(), "*"))
		return strings.Join(names, " ")
	}
	names := removeAfter(staleAge - time.Hour)
	for _, name := range append(made, other) {
		if !strings.Contains(names, name) {
			t.Errorf("%s was removed an hour before staleAge", name)
		}
	}
	if names := removeAfter(staleAge + time.Hour); names != other {
		t.Errorf("left are %s, want only the other program's %s", names, other)
	}
}
