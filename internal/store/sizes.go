package store

import (
	"os"
	"path"
)

// Sizes tells the sizes of many published files, several times as fast as Stat does: it keeps directories open. It is
// not safe for concurrent use.
type Sizes struct {
	dir  *Dir
	open map[string]*os.Root
}

// openDirsMax bounds the directories that are kept open: results are fanned out over 256 of each kind.
const openDirsMax = 512

// Sizes returns what tells sizes; Close it.
func (d *Dir) Sizes() *Sizes { return &Sizes{dir: d, open: map[string]*os.Root{}} }

// Of returns the size of the file name in bytes, false where there is none.
func (s *Sizes) Of(name string) (int64, bool) {
	if checkName(name) != nil {
		return 0, false
	}
	stat := s.dir.root.Stat
	if root := s.root(path.Dir(name)); root != nil {
		stat, name = root.Stat, path.Base(name)
	}
	info, err := stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return info.Size(), true
}

// root returns a directory opened, nil where it cannot be.
func (s *Sizes) root(directory string) *os.Root {
	root := s.open[directory]
	if root != nil || len(s.open) >= openDirsMax {
		return root
	}
	root, err := s.dir.root.OpenRoot(directory)
	if err != nil { // it may not be there, or too many files are open
		return nil
	}
	s.open[directory] = root
	return root
}

// Close gives the directories back.
func (s *Sizes) Close() {
	for _, root := range s.open {
		_ = root.Close() // it was only read
	}
	clear(s.open)
}
