package dir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"latentbeam/internal/storage/store"
)

// List implements store.Store. It reads each directory when it reaches it, and syncs it: a killed run may have renamed files
// there without syncing, and the caller relies on listed files.
func (d *Dir) List(ctx context.Context, prefix string, depth store.Depth) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		if err := store.CheckPrefix(prefix); err != nil {
			yield(store.Info{}, err)
			return
		}
		if err := ctx.Err(); err != nil {
			yield(store.Info{}, fmt.Errorf("list %q: %w", prefix, err))
			return
		}
		l := &lister{d, ctx, prefix, depth, yield}
		l.walk(path.Dir(prefix + "x")) // the directory that all such names share
	}
}

// lister is a running List.
type lister struct {
	dir    *Dir
	ctx    context.Context
	prefix string
	depth  store.Depth
	yield  func(store.Info, error) bool
}

// walk lists a directory, and with Deep its subdirectories. It returns false to stop the list.
func (l *lister) walk(directory string) bool {
	root, entries, err := l.read(directory)
	if errors.Is(err, fs.ErrNotExist) && directory != "." { // an open output always exists
		return true // no such name exists, or the directory was removed and created again at this moment
	}
	if info, statErr := l.dir.root.Stat(directory); err != nil && (errors.Is(statErr, fs.ErrNotExist) ||
		errors.Is(statErr, syscall.ENOTDIR) || statErr == nil && !info.IsDir()) {
		return true
	}
	if err != nil {
		return l.fail(err)
	}
	defer root.Close()
	if err := l.dir.syncNames(directory); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return l.fail(err)
	}
	for _, e := range entries {
		if err := l.ctx.Err(); err != nil {
			return l.fail(err)
		}
		name := path.Join(directory, e.Name())
		switch {
		case e.IsDir():
			if l.depth == store.Deep && strings.HasPrefix(name+"/", l.prefix) && !l.walk(name) {
				return false
			}
		case e.Type().IsRegular() && strings.HasPrefix(name, l.prefix) && store.CheckName(name) == nil:
			info, err := root.Lstat(e.Name())
			if errors.Is(err, fs.ErrNotExist) {
				continue // it was removed meanwhile
			}
			if err != nil {
				return l.fail(err)
			}
			if !l.yield(described(name, info), nil) {
				return false
			}
		}
	}
	return true
}

// read returns a directory and its entries, in the order of the full names.
func (l *lister) read(directory string) (*os.Root, []fs.DirEntry, error) {
	root, err := l.dir.root.OpenRoot(directory)
	if err != nil {
		return nil, nil, err
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		root.Close()
		return nil, nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(sortName(a), sortName(b)) })
	return root, entries, nil
}

// sortName returns the name by which a directory is sorted: where the names in it belong.
func sortName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

func (l *lister) fail(err error) bool {
	l.yield(store.Info{}, l.dir.failed("list", l.prefix, err))
	return false
}
