//go:build unix

package exec

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOddResults: a result that is not an ordinary file is refused before it is opened. Opening a FIFO that nobody writes to
// would block forever.
func TestOddResults(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := unix.Mkfifo(at("fifo.mp4"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(at("folder.mp4"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("s.mp4"))
	if err != nil {
		t.Skip("no socket in a folder with such a long name: ", err)
	}
	defer l.Close()
	for name, size := range map[string]int64{"sparse.mp4": 8 << 40, "good.mp4": 10} {
		if err := os.WriteFile(at(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(at(name), size); err != nil {
			t.Skip("the file system has no such large files: ", err)
		}
	}
	if err := os.Symlink("fifo.mp4", at("link.mp4")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"fifo.mp4": "a FIFO", "folder.mp4": "a folder", "s.mp4": "a socket", "link.mp4": "a FIFO",
		"sparse.mp4": "8796093022208 bytes", "good.mp4": ""} {
		_, err := inside(dir, name)
		if got := ""; err != nil {
			if got = err.Error(); want == "" || !strings.Contains(got, want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		} else if want != "" {
			t.Errorf("%s is accepted, want %q", name, want)
		}
	}
}
