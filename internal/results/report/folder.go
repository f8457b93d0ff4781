package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// folder contains the videos under readable names. It belongs to the program: files in it that are not named by a row are
// removed.
const folder = "names"

// NamedFolder is the folder of readable names in an output.
type NamedFolder struct {
	root  *os.Root
	added []uint64 // hashes of names that were added
}

// OpenNamedFolder opens the folder of names in the directory output, and creates it if necessary.
func OpenNamedFolder(output string) (*NamedFolder, error) {
	root, err := os.OpenRoot(output)
	if err != nil {
		return nil, fmt.Errorf("give names: %w", err)
	}
	if err := root.Mkdir(folder, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		_ = root.Close()
		return nil, fmt.Errorf("give names: %w", err)
	}
	return &NamedFolder{root: root}, nil
}

// Close closes the folder.
func (f *NamedFolder) Close() error { return f.root.Close() }

// Add adds a file of the output under a name. The file's extension is appended to the name.
func (f *NamedFolder) Add(file, name string) error {
	name += path.Ext(file)
	f.added = append(f.added, foldedHash(name))
	return linkOrCopy(f.root, file, path.Join(folder, name))
}

// RemoveOthers removes files whose names were not added.
func (f *NamedFolder) RemoveOthers() error {
	slices.Sort(f.added)
	dir, err := f.root.Open(folder)
	if err != nil {
		return fmt.Errorf("give names: %w", err)
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(1024)
		for _, e := range entries {
			if _, known := slices.BinarySearch(f.added, foldedHash(e.Name())); known || e.IsDir() {
				continue
			}
			if err := f.root.Remove(path.Join(folder, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("give names: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("give names: %w", err)
		}
	}
}

// linkOrCopy makes the file from available as to. It makes a clone if the file system can share blocks, else a read-only hard
// link, else a copy. If to is such a file already, it does nothing.
func linkOrCopy(root *os.Root, from, to string) error {
	source, err := root.Stat(from)
	if err != nil {
		return err
	}
	there, err := root.Lstat(to)
	if err == nil && (os.SameFile(source, there) || isCopy(source, there)) {
		return nil
	}
	// A fixed temporary name is safe, because the run holds the output's lock. RemoveOthers removes the file of a killed run.
	temp := path.Join(folder, strings.TrimSuffix(path.Base(from), path.Ext(from))+".part")
	if err := root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := clone(root, from, temp); err != nil {
		if err := root.Link(from, temp); err == nil {
			if err := root.Chmod(temp, 0o444); err != nil {
				return err
			}
			return root.Rename(temp, to)
		}
		if err := copyTo(root, from, temp); err != nil {
			return err
		}
	}
	at := source.ModTime()
	if err := root.Chtimes(temp, time.Time{}, at); err != nil {
		return err
	}
	return root.Rename(temp, to)
}

// isCopy reports whether a file has the size and the time of source, which linkOrCopy sets.
func isCopy(source, there fs.FileInfo) bool {
	return there.Mode().IsRegular() && source.Size() == there.Size() && source.ModTime().Equal(there.ModTime())
}

// copyTo copies a file.
func copyTo(root *os.Root, from, to string) error {
	in, err := root.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
