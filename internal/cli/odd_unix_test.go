//go:build unix

package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestOddFilesOfModels puts a pipe, a device or a huge file in place of each file of a model: no command hangs or reads the whole huge file.
func TestOddFilesOfModels(t *testing.T) {
	s := newShell(t, "prompts.csv", "prompt\na\n", "job.yaml", "version: 1\nmodel: ./tiny\ninput: {prompts: prompts.csv}\n"+
		"defaults: {height: 32, width: 32, num_frames: 4, num_inference_steps: 2}\noutput: {path: out, write: [video]}\n")
	unpacked, remove, err := unpackTiny()
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	model := filepath.Join(s.dir, "tiny")
	if err := os.CopyFS(model, os.DirFS(unpacked)); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func(path string) error{
		"it is a FIFO":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"it is a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"it is a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"1099511627776 bytes": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		},
	}
	run := func(args ...string) (code int, said string) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			said, code = s.inProcess(args...)
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("latentbeam %s hangs", strings.Join(args, " "))
		}
		return code, said
	}
	err = filepath.WalkDir(model, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		for kind, put := range kinds {
			if err := os.Rename(path, path+".saved"); err != nil {
				return err
			}
			if err := put(path); err != nil {
				return err
			}
			weights := strings.HasSuffix(path, ".safetensors")
			for _, args := range [][]string{{"inspect", "tiny"}, {"plan", "job.yaml"}, {"convert", path, "to.safetensors"}} {
				want := kind
				if weights && kind == "1099511627776 bytes" {
					want = "header" // of such a file, only the header is read
				}
				if args[0] == "convert" && !weights {
					continue
				}
				if args[0] == "convert" && kind == "it is a folder" { // a folder is allowed
					want = "the directory is empty"
				}
				code, said := run(args...)
				if args[0] == "inspect" && strings.HasSuffix(path, "spiece.model") {
					if code != 0 || want != "1099511627776 bytes" && !strings.Contains(said, want) { // inspect reads only the size of a huge file
						t.Errorf("want %q from %s with %s, got exit code %d:\n%s", want, args, path, code, said)
					}
					continue
				}
				if code != 2 || !strings.Contains(strings.Join(strings.Fields(said), " "), want) || !strings.Contains(said, filepath.Base(path)) {
					t.Errorf("want %q from %s with %s, got exit code %d:\n%s", want, args, path, code, said)
				}
			}
			if err := errors.Join(os.Remove(path), os.Rename(path+".saved", path)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
