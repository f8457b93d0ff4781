package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/schemas/objects"
)

// leaseFolder is the folder for a directory's leases.
const leaseFolder = store.TempPrefix + "lease"

// guarded opens a directory. If several hosts may have mounted it, it adds a lease to the lock of the system, which excludes
// other hosts: the same lease as in buckets, stored in files.
func guarded(d *dir.Dir, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	if name, local := d.FileSystem(); !local {
		slog.Debug("locks of this file system may hold on one host alone: a lease excludes other hosts", "output", d.Path(), "file system", name)
		d.Guard(leases(d.Path(), nil), true)
	}
	return d, nil
}

// leases returns a directory's locks as leases. clock is nil except in tests.
func leases(path string, clock bucket.Clock) *bucket.Bucket {
	return bucket.New(generations{filepath.Join(path, leaseFolder)}, bucket.Address{}, bucket.Options{URL: path, Clock: clock})
}

// generations stores small records in a directory. Each generation of a record is a file: KEY/NUMBER. A writer creates the file
// of a new generation exclusively; every network file system decides centrally which process succeeds. The highest number is
// the current record.
type generations struct{ root string }

// kept is how many old generations are kept for readers.
const kept = 4

// looks is how often a read is repeated if the record is replaced meanwhile.
const looks = 10

// folder returns the directory of a record.
func (g generations) folder(key string) string { return filepath.Join(g.root, filepath.FromSlash(key)) }

func (g generations) file(key string, n int64) string {
	return filepath.Join(g.folder(key), strconv.FormatInt(n, 10))
}

// newest returns the number of a record's newest generation, 0 for none.
func (g generations) newest(key string) (newest int64, err error) {
	entries, err := os.ReadDir(g.folder(key))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, e := range entries {
		if n, err := strconv.ParseInt(e.Name(), 10, 64); err == nil {
			newest = max(newest, n)
		}
	}
	return newest, err
}

// Stat implements objects.Service.
func (g generations) Stat(_ context.Context, key string) (objects.Object, error) {
	for range looks {
		n, err := g.newest(key)
		if err != nil {
			return objects.Object{}, err
		}
		if n == 0 {
			return objects.Object{}, fs.ErrNotExist
		}
		info, err := os.Stat(g.file(key, n))
		if err == nil {
			return objects.Object{Key: key, Version: objects.Version(strconv.FormatInt(n, 10)), Size: info.Size(), Time: info.ModTime()}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return objects.Object{}, err
		} // it is outdated
	}
	return objects.Object{}, fmt.Errorf("the lease %s: %d times a newer one was written meanwhile", key, looks)
}

// Read implements objects.Service.
func (g generations) Read(_ context.Context, o objects.Object, offset, length int64) (io.ReadCloser, error) {
	f, err := os.Open(filepath.Join(g.folder(o.Key), string(o.Version)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, objects.ErrRefused
	}
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, offset, length), f}, nil
}

// Write implements objects.Service. A slow writer may create a generation that others have created and removed before; then a
// newer one exists.
func (g generations) Write(_ context.Context, key string, old objects.Version, c objects.Content) (objects.Version, error) {
	was, _ := strconv.ParseInt(string(old), 10, 64)
	if n, err := g.newest(key); err != nil || n != was {
		return objects.Absent, errors.Join(err, refusedIf(n != was))
	}
	next := was + 1
	if err := os.MkdirAll(g.folder(key), 0o755); err != nil {
		return objects.Absent, err
	}
	text := make([]byte, c.Size)
	if _, err := c.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) {
		return objects.Absent, err
	}
	if err := makeNew(g.file(key, next), text); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = objects.ErrRefused
		}
		return objects.Absent, err
	}
	if n, err := g.newest(key); err != nil || n != next {
		_ = os.Remove(g.file(key, next))
		return objects.Absent, errors.Join(err, refusedIf(n != next))
	}
	if next > kept {
		_ = os.Remove(g.file(key, next-kept))
	}
	return objects.Version(strconv.FormatInt(next, 10)), nil
}

func refusedIf(refused bool) error {
	if refused {
		return objects.ErrRefused
	}
	return nil
}

// makeNew creates a file with content, exclusively. It uses a link, so that the file is complete at once. Without links, an
// early reader sees a record of an unknown holder. A power cut may also leave such a record; it expires.
func makeNew(path string, text []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Close())
	if err != nil {
		return err
	}
	err = os.Link(temp.Name(), path)
	if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EPERM) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// List implements objects.Service: leases are never listed.
func (g generations) List(context.Context, string, bool, string, int) ([]objects.Object, string, error) {
	return nil, "", nil
}

// Remove implements objects.Service: a lease is released by writing another generation.
func (g generations) Remove(context.Context, objects.Object) error { return nil }

// Parts implements objects.Service.
func (g generations) Parts() *objects.Parts { return nil }

// Close implements objects.Service.
func (g generations) Close() {}
