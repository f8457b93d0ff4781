package library

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOpen: in which order Open tries paths. First come the names of the files, which the loader may find, then the files in folders, where a
// newer version and a newer folder come first. A variable of the environment replaces all of this.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	old := folders
	defer func() { folders = old }()
	folders = []string{filepath.Join(dir, "none"), filepath.Join(dir, "python3*", "lib")}
	for _, name := range []string{"python3.11/lib/libx.so.1", "python3.12/lib/libx.so.1", "python3.12/lib/libx.so.2"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files := []string{"libx.so.2", "libx.so.1"}
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		name, variable string
		opens          string   // the only path that can be opened; "": none
		tried          []string // paths that Open must try
	}{
		{"the loader knows it", "", "libx.so.1", files},
		{"in a folder", "", in("python3.12/lib/libx.so.1"), append(slices.Clone(files), in("python3.12/lib/libx.so.2"),
			in("python3.11/lib/libx.so.1"), in("python3.12/lib/libx.so.1"))},
		{"named", "/opt/libx.so", "/opt/libx.so", []string{"/opt/libx.so"}},
		{"named and not there", "/opt/liby.so", "", []string{"/opt/liby.so"}},
	} {
		t.Setenv("LATENTBEAM_LIBX", c.variable)
		var tried []string
		got, err := Open("X", "LATENTBEAM_LIBX", files, func(path string) (string, error) {
			if tried = append(tried, path); path == c.opens {
				return path, nil
			}
			return "", errors.New(path + ": no such file")
		})
		if got != c.opens || !slices.Equal(tried, c.tried) {
			t.Errorf("%s: got %q after trying %q, want %q after %q", c.name, got, tried, c.opens, c.tried)
		}
		if (err == nil) != (c.opens != "") ||
			err != nil && !strings.Contains(err.Error(), "X is not found: "+c.tried[0]) {
			t.Errorf("%s: got error %v", c.name, err)
		}
	}
}
