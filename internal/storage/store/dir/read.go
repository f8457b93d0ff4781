package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"latentbeam/internal/storage/store"
)

// File is a published file that is open for reading. It stays readable after another file takes its name.
type File struct {
	file *os.File
	size int64
}

// Size returns the length in bytes at the time of opening.
func (f *File) Size() int64 { return f.size }

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(b []byte, offset int64) (int, error) { return f.file.ReadAt(b, offset) }

// Close implements io.Closer.
func (f *File) Close() error { return f.file.Close() }

// checkCall checks the arguments of a call.
func checkCall(ctx context.Context, name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("use %s: %w", name, err)
	}
	return nil
}

// missing returns the error for a name without a published file.
func missing(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// Open implements store.Store.
func (d *Dir) Open(ctx context.Context, name string) (store.Reader, error) {
	if err := checkCall(ctx, name); err != nil {
		return nil, err
	}
	f, err := d.root.Open(name)
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			path.Op = "open"
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = d.regular("open", name, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{f, info.Size()}, nil
}

// described returns the Info of a published file.
func described(name string, info fs.FileInfo) store.Info {
	at := info.ModTime().UnixNano()
	return store.Info{Name: name, Size: info.Size(), Mark: strconv.FormatInt(at, 10), Time: at}
}

// Stat implements store.Store.
func (d *Dir) Stat(ctx context.Context, name string) (store.Info, error) {
	if err := checkCall(ctx, name); err != nil {
		return store.Info{}, err
	}
	info, err := d.root.Stat(name)
	if err == nil {
		err = d.regular("look up", name, info)
	}
	if err != nil {
		return store.Info{}, err
	}
	return described(name, info), nil
}

// regular returns an error if info is not a published file: a directory is not an object, and any other file was not created by
// this program.
func (d *Dir) regular(verb, name string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return missing(verb, name)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s %s in %s: not a regular file", verb, name, d.path)
	}
	return nil
}

// Remove implements store.Store. It does not sync.
func (d *Dir) Remove(ctx context.Context, name string) error {
	if err := checkCall(ctx, name); err != nil {
		return err
	}
	if err := d.mine(ctx); err != nil {
		return err
	}
	err := d.about(Call{Op: OpRemove, Name: name})
	if err == nil {
		err = d.removeFile(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return d.failed("remove", name, err)
	}
	return err
}

func (d *Dir) removeFile(name string) error {
	if info, err := d.root.Lstat(name); err == nil && info.IsDir() {
		return missing("remove", name)
	}
	return d.root.Remove(name)
}
