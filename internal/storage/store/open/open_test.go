package open

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	if s, err := Existing(t.Context(), path); s != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an output that does not exist: %v, %v", s, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("Existing created the output")
	}
	for _, open := range []func(context.Context, string) (store.Store, error){Output, Existing} {
		s, err := open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if s.URL() != path {
			t.Errorf("the store of %s is at %s", path, s.URL())
		}
		s.Close()
		for _, url := range []string{"ftp://host/out", "http://host/out"} {
			scheme, _, _ := strings.Cut(url, "/")
			if s, err := open(t.Context(), url); s != nil || fault.ExitCode(err) != fault.ExitUsage ||
				!strings.Contains(err.Error(), "no store for "+scheme+"//") {
				t.Errorf("%s: %v, %v", url, s, err)
			}
		}
	}
}
