package dir_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"latentbeam/internal/storage/store/dir"
)

// TestFoldersVanishWhileTempsAreCleaned: CleanTemps returns no error if folders of another host's check disappear meanwhile.
func TestFoldersVanishWhileTempsAreCleaned(t *testing.T) {
	where := t.TempDir()
	d, err := dir.Open(where)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	unlock, err := d.Lock(t.Context(), "lock", "owner")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; !over.Load(); i++ {
			for k := range 20 {
				_ = os.MkdirAll(filepath.Join(where, fmt.Sprintf(".tmp-check-%d", k), "deep"), 0o755)
			}
			for k := range 20 {
				_ = os.RemoveAll(filepath.Join(where, fmt.Sprintf(".tmp-check-%d", k)))
			}
		}
	}()
	for range 500 {
		if _, err := d.CleanTemps(t.Context()); err != nil {
			t.Error(err)
			break
		}
	}
	over.Store(true)
	<-ended
}
