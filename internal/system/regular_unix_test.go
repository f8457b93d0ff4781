//go:build unix

package system

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenRegular: a file that is not regular, or that is larger than 7 bytes, gives an error that says so, also through a symbolic link. Four
// functions read each file, and none of them blocks.
func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{unix.Mkfifo(at("fifo"), 0o600), os.Mkdir(at("folder"), 0o700), os.WriteFile(at("file"), []byte("content"), 0o600),
		os.WriteFile(at("sparse"), nil, 0o600), os.Truncate(at("sparse"), 1<<40), os.Symlink("/dev/zero", at("zero")),
		os.Symlink("fifo", at("link")), os.Symlink("file", at("good"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	files := RegularFS(dir)
	for name, want := range map[string]string{"fifo": "it is a FIFO, not", "link": "it is a FIFO", "folder": "it is a folder", "zero": "it is a device",
		"sparse": "it has 1099511627776 bytes, at most 7 are read", "none": "no such file", "file": "", "good": ""} {
		for what, read := range map[string]func() ([]byte, error){
			"ReadRegular": func() ([]byte, error) { return ReadRegular(at(name), 7) },
			"RegularFS":   func() ([]byte, error) { return ReadFileOf(files, name, 7) },
			"OpenRegular": func() ([]byte, error) {
				f, err := OpenRegular(at(name))
				if err != nil || name == "sparse" {
					return nil, err
				}
				defer f.Close()
				return readAtMost(f, name, 7)
			},
			"MapFile": func() ([]byte, error) {
				content, unmap, err := MapFile(at(name))
				if err != nil {
					return nil, err
				}
				return []byte(string(content[:7])), unmap()
			},
		} {
			data, err := read()
			want := want
			if name == "sparse" && (what == "OpenRegular" || what == "MapFile") {
				want = "" // these two do not limit the size, because they do not read the whole file
			}
			switch {
			case want == "" && (err != nil || name != "sparse" && string(data) != "content"):
				t.Errorf("%s of %s: got %q, %v; want content", what, name, data, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s of %s: got %v, want %q", what, name, err, want)
			}
		}
	}
	if entries, err := fs.ReadDir(files, "."); err != nil || len(entries) != 7 {
		t.Errorf("ReadDir: got %v, %v; want 7 entries", entries, err)
	}
	if info, err := fs.Stat(files, "fifo"); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("Stat of a FIFO: got %v, %v", info, err)
	}
}
