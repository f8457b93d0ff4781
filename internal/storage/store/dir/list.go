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

// List implements store.Store. It reads a directory when its turn comes, and syncs it: a run that was killed may have
// given names there and come no further, and whoever sees them relies on them.
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

// lister is one List under way.
type lister struct {
	dir    *Dir
	ctx    context.Context
	prefix string
	depth  store.Depth
	yield  func(store.Info, error) bool
}

// walk lists a directory, and with Deep those in it; false ends the list.
func (l *lister) walk(directory string) bool {
	root, entries, err := l.read(directory)
	if errors.Is(err, fs.ErrNotExist) && directory != "." { // the output itself is there as long as it is open
		return true // nothing has such a name, or had at the moment in which somebody removed and made the directory anew
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

// read returns a directory and its entries in the order of the names below them.
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

// sortName puts a directory where the names in it come.
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
