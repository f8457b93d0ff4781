package dir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// TestRemovedOutput: if an output is removed, moved or replaced while it is in use, the error says so and what to do. A missing file gives
// another error.
func TestRemovedOutput(t *testing.T) {
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, "text")
		return err
	}
	for name, after := range map[string]func(path string) error{
		"removed":  os.RemoveAll,
		"replaced": func(path string) error { return errors.Join(os.RemoveAll(path), os.Mkdir(path, dirMode)) },
		"moved":    func(path string) error { return os.Rename(path, path+"-elsewhere") },
	} {
		d := openTest(t)
		if err := d.Remove(t.Context(), "a/missing"); errors.Is(err, store.ErrRemoved) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a missing file: %v", err)
		}
		if err := d.Replace(t.Context(), "dir/known.txt", write); err != nil {
			t.Fatal(err)
		}
		if err := after(d.Path()); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"one.txt", "dir/one.txt"} {
			err := d.Replace(t.Context(), file, write)
			if !errors.Is(err, store.ErrRemoved) || fault.ExitCode(err) != fault.ExitFatal ||
				!strings.Contains(err.Error(), d.Path()) || !strings.Contains(err.Error(), "run again to start over") {
				t.Errorf("%s, %s: %v", name, file, err)
			}
			err = d.Put(t.Context(), store.Object{Name: "put/" + file, Data: []byte("a")})
			if !errors.Is(err, store.ErrRemoved) {
				t.Errorf("%s, put %s: %v", name, file, err)
			}
		}
	}
}

// TestListWhileRemoved: List returns no error while another process removes and creates a directory again.
func TestListWhileRemoved(t *testing.T) {
	d := openTest(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		name := filepath.Join(d.Path(), "runs", "one")
		for range 3000 {
			_ = os.MkdirAll(name, dirMode)
			_ = os.RemoveAll(filepath.Dir(name))
		}
	}()
	for {
		for _, err := range d.List(t.Context(), "runs/", store.Deep) {
			if err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-ended:
			return
		default:
		}
	}
}
