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

// folder has the videos under names for people. It belongs to the program: what is no name of a row is removed.
const folder = "names"

// NamedFolder is the folder of names in an output.
type NamedFolder struct {
	root  *os.Root
	given []uint64 // hashes of names
}

// OpenNamedFolder opens the folder of names of the output in a directory.
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

// Give gives a file of the output a name, with the extension that the file has.
func (f *NamedFolder) Give(file, name string) error {
	name += path.Ext(file)
	f.given = append(f.given, foldedHash(name))
	return giveName(f.root, file, path.Join(folder, name))
}

// RemoveOthers removes what has been given no name.
func (f *NamedFolder) RemoveOthers() error {
	slices.Sort(f.given)
	dir, err := f.root.Open(folder)
	if err != nil {
		return fmt.Errorf("give names: %w", err)
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(1024)
		for _, e := range entries {
			if _, known := slices.BinarySearch(f.given, foldedHash(e.Name())); known || e.IsDir() {
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

// giveName puts the file from at the name to as well: a clone where the file system can share blocks, else a hard link
// that nobody writes through, else a copy. What is there already stays.
func giveName(root *os.Root, from, to string) error {
	source, err := root.Stat(from)
	if err != nil {
		return err
	}
	there, err := root.Lstat(to)
	if err == nil && (os.SameFile(source, there) || same(source, there)) {
		return nil
	}
	// One temporary name is enough: the lock of the job is held. A file left by a kill is no name of a row.
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

// same reports whether a copy has the size and the time of its source, as giveName gives them.
func same(source, there fs.FileInfo) bool {
	return there.Mode().IsRegular() && source.Size() == there.Size() && source.ModTime().Equal(there.ModTime())
}

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
