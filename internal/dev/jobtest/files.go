package jobtest

import (
	"os"
	"path/filepath"
	"testing"
)

// Must fails the test on an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WriteTable writes a prompt table into a new directory and returns its path.
func WriteTable(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// WriteFile writes a file below dir.
func WriteFile(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Root returns the relative path from the folder of the test to the root of the module, such as ../../.. .
func Root() string {
	for dir := ".."; len(dir) < 30; dir += "/.." {
		if _, err := os.Stat(dir + "/go.mod"); err == nil {
			return dir
		}
	}
	return "."
}
