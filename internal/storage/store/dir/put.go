package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// openTempsMax limits the files that Put has open between writing and fsync.
const openTempsMax = 64

// Put publishes all objects, each exactly once, with one set of fsyncs: all bytes are on disk before the first rename, and all
// names are on disk when it returns nil. An object whose name already has equal bytes counts as published. Different bytes give
// a *ConflictError (several are joined), and the rest of the batch is still published. After any other error each object is
// complete under its name or absent, and Put can be called again.
func (d *Dir) Put(ctx context.Context, objects ...store.Object) error {
	for _, o := range objects {
		if err := store.CheckName(o.Name); err != nil {
			return err
		}
	}
	if err := d.mine(ctx); err != nil {
		return err
	}
	b := &batch{dir: d, touched: map[string]bool{}}
	defer b.discard()
	for chunk := range slices.Chunk(objects, openTempsMax) {
		if err := b.write(ctx, chunk); err != nil {
			return err
		}
	}
	if err := b.publish(ctx); err != nil {
		return err
	}
	if len(objects) > 0 {
		if err := d.found("publish", objects[0].Name); err != nil {
			return err
		}
	}
	return errors.Join(b.conflicts...)
}

// batch is a running Put.
type batch struct {
	dir       *Dir
	ready     []staged // synced, not yet renamed
	touched   map[string]bool
	conflicts []error
}

type staged struct {
	*temp
	data []byte
}

// write writes a chunk's objects to disk under temporary names.
func (b *batch) write(ctx context.Context, chunk []store.Object) error {
	first := len(b.ready)
	for _, o := range chunk {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("publish %s: %w", o.Name, err)
		}
		if err := b.touch(path.Dir(o.Name)); err != nil {
			return err
		}
		if found, err := b.find(ctx, o); found || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		t, err := b.dir.createTemp(o.Name)
		if err != nil {
			return err
		}
		b.ready = append(b.ready, staged{t, o.Data})
		fault.Point(fault.StorePutTempCreated)
		if _, err := t.Write(o.Data); err != nil {
			return err
		}
		fault.Point(fault.StorePutTempWritten)
	}
	for _, t := range b.ready[first:] {
		if err := t.sync(); err != nil {
			return err
		}
		fault.Point(fault.StorePutTempSynced)
	}
	return nil
}

// touch creates a directory if necessary and records what must be synced at the end.
func (b *batch) touch(name string) error {
	dirty, err := b.dir.ensureDir(name)
	if err != nil {
		return err
	}
	b.touched[name] = true
	for _, parent := range dirty {
		b.touched[parent] = true
	}
	return nil
}

// find reports whether the object exists, and records a conflict if it has different bytes.
func (b *batch) find(ctx context.Context, o store.Object) (bool, error) {
	conflict, err := b.dir.compare(ctx, o)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, b.dir.failed("compare", o.Name, err)
	case conflict != nil:
		b.conflicts = append(b.conflicts, conflict)
	}
	return true, nil
}

// publish renames the staged files and syncs every used directory once. A file that already existed is synced too, because the
// run that renamed it may have been killed before syncing.
func (b *batch) publish(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publish %d files: %w", len(b.ready), err)
	}
	if err := b.dir.mine(ctx); err != nil { // the last check was long ago
		return err
	}
	for len(b.ready) > 0 {
		t := b.ready[0]
		fault.Point(fault.StorePutBeforeRename)
		err := t.renameNew()
		if errors.Is(err, fs.ErrExist) {
			// Another writer was faster.
			if found, err := b.find(ctx, store.Object{Name: t.final, Data: t.data}); !found || err != nil {
				return errors.Join(err, b.dir.failed("publish", t.final, fs.ErrExist))
			}
			t.discard()
		} else if err != nil {
			return b.dir.failed("rename", t.final, err)
		}
		b.ready = b.ready[1:]
		fault.Point(fault.StorePutRenamed)
	}
	fault.Point(fault.StorePutBeforeDirSync)
	if err := b.dir.syncDirs(b.touched); err != nil {
		return err
	}
	fault.Point(fault.StorePutDirsSynced)
	return nil
}

// syncDirs syncs each directory once, parents first, and remembers them.
func (d *Dir) syncDirs(touched map[string]bool) error {
	names := slices.Sorted(maps.Keys(touched))
	for _, name := range names {
		if err := d.syncDir(name); err != nil {
			return err
		}
	}
	for _, name := range names {
		d.settled(name)
	}
	return nil
}

// compare returns nil if the existing file has exactly o's bytes, otherwise the conflict.
func (d *Dir) compare(ctx context.Context, o store.Object) (*store.ConflictError, error) {
	f, err := d.Open(ctx, o.Name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return store.Compare(f, o)
}

// discard removes what a failed Put has not published.
func (b *batch) discard() {
	for _, t := range b.ready {
		t.discard()
	}
}
