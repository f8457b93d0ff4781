package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDigestOfLevels: ** inside a pattern is refused: in earlier releases it matched one level of folders, and the keys of
// rows depend on that. The pattern that the message suggests gives the same digest.
func TestDigestOfLevels(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"src/a.py", "src/s/b.py", "src/s/t/c.py"} {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err := digestOf([]string{root + "/src/**/*.py"})
	if err == nil || !strings.Contains(err.Error(), root+"/src/*/*.py") {
		t.Errorf("%v", err)
	}
	whole, err := digestOf([]string{root + "/src"})
	if err != nil {
		t.Fatal(err)
	}
	below, err := digestOf([]string{root + "/src/**"})
	if err != nil || below == "" {
		t.Errorf("%v", err)
	}
	one, err := digestOf([]string{root + "/src/*/*.py"})
	if err != nil || one == whole {
		t.Errorf("one level: %v", err)
	}
}
