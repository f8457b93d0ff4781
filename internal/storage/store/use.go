package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// ReadFile reads a whole object.
func ReadFile(ctx context.Context, s Store, name string) ([]byte, error) {
	f, err := s.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, f.Size())
	if n, err := f.ReadAt(data, 0); err != nil && (!errors.Is(err, io.EOF) || n < len(data)) {
		return nil, err
	}
	return data, nil
}

// Exists reports whether there is an object called name.
func Exists(ctx context.Context, s Store, name string) (bool, error) {
	_, err := s.Stat(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Names returns the names that List yields.
func Names(ctx context.Context, s Store, prefix string, depth Depth) ([]string, error) {
	var names []string
	for info, err := range s.List(ctx, prefix, depth) {
		if err != nil {
			return nil, err
		}
		names = append(names, info.Name)
	}
	return names, nil
}

// HasScheme reports whether url is an address such as gs://bucket/x, not a path.
func HasScheme(url string) bool {
	scheme, _, found := strings.Cut(url, "://")
	return found && !strings.ContainsAny(scheme, "/.")
}

// Address returns the location of an object in the store at url, for people.
func Address(url, name string) string {
	if HasScheme(url) {
		return strings.TrimSuffix(url, "/") + "/" + name
	}
	return filepath.Join(url, filepath.FromSlash(name))
}

// ListSizes returns the Sizes for stores that list faster than they describe single objects, such as buckets. It lists a
// directory when its first object is requested. It needs about 150 bytes for each object.
func ListSizes(s Store) Sizes { return &listSizes{s, map[string]map[string]Info{}} }

type listSizes struct {
	store Store
	known map[string]map[string]Info // by directory, then by name
}

// Of implements Sizes.
func (l *listSizes) Of(ctx context.Context, name string) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	directory := path.Dir(name) + "/"
	if directory == "./" {
		directory = ""
	}
	sizes, listed := l.known[directory]
	if !listed {
		sizes = map[string]Info{}
		for info, err := range l.store.List(ctx, directory, Flat) {
			if err != nil {
				return Info{}, err
			}
			sizes[info.Name] = info
		}
		l.known[directory] = sizes
	}
	info, found := sizes[name]
	if !found {
		return Info{}, &fs.PathError{Op: "stat", Path: Address(l.store.URL(), name), Err: fs.ErrNotExist}
	}
	return info, nil
}

// Close implements Sizes.
func (l *listSizes) Close() { clear(l.known) }
