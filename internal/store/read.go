package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// File is a published file, open for reading. ReadAt is safe for concurrent use.
type File struct {
	file *os.File
	size int64
}

// Size is the length in bytes when the file was opened.
func (f *File) Size() int64 { return f.size }

// Read implements io.Reader.
func (f *File) Read(b []byte) (int, error) { return f.file.Read(b) }

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(b []byte, offset int64) (int, error) { return f.file.ReadAt(b, offset) }

// Close implements io.Closer.
func (f *File) Close() error { return f.file.Close() }

// Open opens a published file. A missing one gives fs.ErrNotExist.
func (d *Dir) Open(name string) (*File, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s in %s: not a regular file", name, d.path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{f, info.Size()}, nil
}

// ReadFile reads a whole published file.
func (d *Dir) ReadFile(name string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return d.root.ReadFile(name)
}

// Stat describes a published file or directory.
func (d *Dir) Stat(name string) (fs.FileInfo, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return d.root.Stat(name)
}

// Exists reports whether Stat finds name.
func (d *Dir) Exists(name string) bool {
	_, err := d.Stat(name)
	return err == nil
}

// List returns the names of all published files that start with prefix, sorted. The prefix is a
// string as in a bucket ("tables/videos-" or "videos/"), not a pattern. Temporary files are left
// out. No file at all is an empty list.
func (d *Dir) List(prefix string) ([]string, error) {
	start := path.Dir(prefix + "x") // the directory all such names share
	if start != "." {
		if err := checkName(start); err != nil {
			return nil, err
		}
	}
	var names []string
	err := fs.WalkDir(d.root.FS(), start, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && !strings.HasPrefix(name+"/", prefix) && !strings.HasPrefix(prefix, name+"/") &&
			name != start:
			return fs.SkipDir
		case entry.Type().IsRegular() && strings.HasPrefix(name, prefix) && !isTemp(name):
			names = append(names, name)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, d.failed("list", prefix, err)
	}
	slices.Sort(names)
	return names, nil
}

// Files returns the names of the published files that lie directly in the directory ("." for the output
// itself), sorted.
func (d *Dir) Files(directory string) ([]string, error) {
	entries, err := fs.ReadDir(d.root.FS(), directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, d.failed("list", directory, err)
	}
	var names []string
	for _, e := range entries {
		if name := path.Join(directory, e.Name()); e.Type().IsRegular() && !isTemp(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Remove removes a published file. It is not synced: after a power cut the file may be back.
func (d *Dir) Remove(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	err := d.about(Call{Op: OpRemove, Name: name})
	if err == nil {
		err = d.root.Remove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.failed("remove", name, err)
	}
	return err
}
