package dir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"latentbeam/internal/storage/store"
)

// TestSizes: sizes are right for files in more directories than are kept open, for changed files, and for a new file. Names that are not
// published files have no size.
func TestSizes(t *testing.T) {
	d := openTest(t)
	var names []string
	for i := range openDirsMax + 3 {
		names = append(names, fmt.Sprintf("videos/%03d/a.mp4", i))
		path := filepath.Join(d.Path(), filepath.FromSlash(names[i]))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, i), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s := d.Sizes(t.Context())
	defer s.Close()
	for range 2 {
		for i, name := range names {
			if size, ok := of(t, s, name); size != int64(i) || !ok {
				t.Fatalf("%s has %d bytes, %v; want %d", name, size, ok, i)
			}
		}
	}
	for _, name := range []string{"videos/000", "videos/000/b.mp4", "posters/00/a.jpg", "../a", "videos/../videos/000/a.mp4"} {
		if size, ok := of(t, s, name); ok {
			t.Errorf("the size of %s is given as %d bytes", name, size)
		}
	}
	path := filepath.Join(d.Path(), "videos", "007", "a.mp4")
	if err := os.Truncate(path, 3); err != nil {
		t.Fatal(err)
	}
	if size, ok := of(t, s, "videos/007/a.mp4"); size != 3 || !ok {
		t.Errorf("a truncated file has %d bytes, %v", size, ok)
	}
	if err := d.Put(t.Context(), store.Object{Name: "posters/00/a.jpg", Data: []byte("late")}); err != nil {
		t.Fatal(err)
	}
	if size, ok := of(t, s, "posters/00/a.jpg"); size != 4 || !ok {
		t.Errorf("a file of a new directory has %d bytes, %v", size, ok)
	}
}

// of returns the size of a file, and false for a missing file.
func of(t *testing.T, s store.Sizes, name string) (int64, bool) {
	info, err := s.Of(t.Context(), name)
	return info.Size, err == nil
}
