package system

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRemoveLeft: temporary files that are older than a day are removed, and no other files.
func TestRemoveLeft(t *testing.T) {
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
	left := func(after time.Duration) string {
		removeStale(os.TempDir(), time.Now().Add(after))
		names, _ := filepath.Glob(filepath.Join(os.TempDir(), "*"))
		return strings.Join(names, " ")
	}
	names := left(staleAge - time.Hour)
	for _, name := range append(made, other) {
		if !strings.Contains(names, name) {
			t.Errorf("%s is removed too early", name)
		}
	}
	if names := left(staleAge + time.Hour); names != other {
		t.Errorf("left: %s", names)
	}
}
