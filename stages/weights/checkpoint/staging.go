package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"latentbeam/internal/system"
)

// staging is a list of files with temporary names beside their final names.
type staging struct{ files []stagedFiles }

type stagedFiles struct{ temporary, final string }

// add writes a file and syncs it to disk.
func (s *staging) add(final string, content func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(final), ".convert-*.tmp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	s.files = append(s.files, stagedFiles{f.Name(), final})
	w := bufio.NewWriterSize(f, 1<<20)
	if err := content(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	return f.Sync()
}

// publish gives all files their final names, in order, without replacing existing files.
func (s *staging) publish() (paths []string, err error) {
	dirs := map[string]bool{}
	for len(s.files) > 0 {
		f := s.files[0]
		if err := os.Link(f.temporary, f.final); errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%s is there already; remove it or name another output", f.final)
		} else if err != nil { // a file system without links
			if err := os.Rename(f.temporary, f.final); err != nil {
				return nil, err
			}
		} else if err := os.Remove(f.temporary); err != nil {
			return nil, err
		}
		s.files = s.files[1:]
		paths = append(paths, f.final)
		dirs[filepath.Dir(f.final)] = true
	}
	for dir := range dirs {
		if err := syncDir(dir); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// discard removes the files that were not published.
func (s *staging) discard() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, os.Remove(f.temporary))
	}
	s.files = nil
	return errors.Join(errs...)
}

// syncDir syncs the names in a directory to disk, if the system supports it.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// maxBeside limits the size of files that are copied beside weights: configurations and tokenizers.
const maxBeside = 64 << 20

// besideSuffixes are the suffixes of the files that a component needs besides its weights.
var besideSuffixes = []string{".json", ".model", ".txt", ".md"}

// copyBeside copies the small files of a component, without indexes of weights. It does not replace files.
func copyBeside(from, to string) (paths []string, err error) {
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, err
	}
	s := &staging{}
	defer func() { err = errors.Join(err, s.discard()) }()
	for _, e := range entries {
		source, final := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if !slices.Contains(besideSuffixes, path.Ext(e.Name())) || strings.HasSuffix(e.Name(), ".index.json") {
			continue
		}
		info, err := os.Stat(source)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxBeside {
			continue
		}
		if _, err := os.Lstat(final); err == nil {
			continue // or input and output are the same directory
		}
		data, err := system.ReadRegular(source, maxBeside)
		if err != nil {
			return nil, err
		}
		if err := s.add(final, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}); err != nil {
			return nil, err
		}
	}
	return s.publish()
}
