package dir

import (
	"context"
	"os"
	"path"

	"latentbeam/internal/storage/store"
)

// sizes describes many published files, several times as fast as Stat, because it keeps directories open.
type sizes struct {
	dir  *Dir
	open map[string]*os.Root
}

// openDirsMax limits the directories that are kept open: results are spread over 256 directories of each kind.
const openDirsMax = 512

// Sizes implements store.Store. It always returns the current state.
func (d *Dir) Sizes(context.Context) store.Sizes { return &sizes{dir: d, open: map[string]*os.Root{}} }

// Of implements store.Sizes. A file that cannot be accessed counts as missing.
func (s *sizes) Of(ctx context.Context, name string) (store.Info, error) {
	if err := checkCall(ctx, name); err != nil {
		return store.Info{}, err
	}
	full := name
	stat := s.dir.root.Stat
	if root := s.root(path.Dir(name)); root != nil {
		stat, name = root.Stat, path.Base(name)
	}
	info, err := stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return store.Info{}, missing("stat", full)
	}
	return described(full, info), nil
}

// root returns an open directory, nil if it cannot be opened.
func (s *sizes) root(directory string) *os.Root {
	root := s.open[directory]
	if root != nil || len(s.open) >= openDirsMax {
		return root
	}
	root, err := s.dir.root.OpenRoot(directory)
	if err != nil { // it may not exist, or too many files are open
		return nil
	}
	s.open[directory] = root
	return root
}

// Close closes the directories.
func (s *sizes) Close() {
	for _, root := range s.open {
		_ = root.Close() // it was only read
	}
	clear(s.open)
}
