package dir

import (
	"context"
	"io/fs"
	"path/filepath"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/storetest"
)

func TestLaws(t *testing.T) { storetest.Run(t, output) }

func TestSchedules(t *testing.T) { storetest.Schedules(t, output(t), "") }

func TestHistories(t *testing.T) { storetest.Histories(t, output(t), 10, " in a directory") }

// output returns an output in a new directory.
func output(t testing.TB) storetest.Output {
	path := filepath.Join(t.TempDir(), "out")
	return storetest.Output{
		Open: func(context.Context) (store.Store, error) { return Open(path) },
		Die:  func(s store.Store) { _ = s.(*Dir).held.Close() },
		Temps: func() (n int, err error) {
			err = filepath.WalkDir(path, func(name string, _ fs.DirEntry, err error) error {
				if isTemp(filepath.ToSlash(name)) {
					n++
				}
				return err
			})
			return n, err
		},
	}
}
