package location

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRemoveLeft: what a killed process has left is removed a day later, and nothing else.
func TestRemoveLeft(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	for name, age := range map[string]time.Duration{"latentbeam-media-1.y4m": 25 * time.Hour, "latentbeam-media-2.y4m": time.Hour,
		"other.y4m": 48 * time.Hour} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	removeLeft(dir, now)
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(left) != 2 || filepath.Base(left[0]) != "latentbeam-media-2.y4m" {
		t.Errorf("left: %v", left)
	}
}
