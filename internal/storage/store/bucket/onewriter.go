package bucket

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/objects"
)

// oneWriter wraps a service whose conditions cannot be trusted. It checks what exists and then writes without a condition. That
// is correct as long as no other process writes at the same time.
type oneWriter struct{ objects.Service }

// OneWriter makes the bucket write without conditions. broken lists the promises that the service does not keep.
func (b *Bucket) OneWriter(broken []store.Promise) {
	b.service, b.broken = oneWriter{b.service}, broken
}

// Broken returns the promises for which OneWriter was called, nil if it was not called.
func (b *Bucket) Broken() []store.Promise { return b.broken }

// check returns ErrRefused if a key does not have a version.
func (o oneWriter) check(ctx context.Context, key string, old objects.Version) error {
	there, err := o.Stat(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		there.Version, err = objects.Absent, nil
	}
	if err == nil && old != objects.Any && there.Version != old {
		err = objects.ErrRefused
	}
	return err
}

// Read implements Service.
func (o oneWriter) Read(ctx context.Context, there objects.Object, offset, length int64) (io.ReadCloser, error) {
	there.Version = objects.Any
	return o.Service.Read(ctx, there, offset, length)
}

// Write implements Service. It returns the version that Stat reports, because the version in the answer may differ.
func (o oneWriter) Write(ctx context.Context, key string, old objects.Version, c objects.Content) (objects.Version, error) {
	if err := o.check(ctx, key, old); err != nil {
		return objects.Absent, err
	}
	if _, err := o.Service.Write(ctx, key, objects.Any, c); err != nil {
		return objects.Absent, err
	}
	there, err := o.Stat(ctx, key)
	return there.Version, err
}

// Parts implements Service.
func (o oneWriter) Parts() *objects.Parts {
	p := o.Service.Parts()
	if p == nil {
		return nil
	}
	with := *p
	with.Finish = func(ctx context.Context, key, upload string, tags []string, old objects.Version, c objects.Content) (objects.Version, error) {
		if err := o.check(ctx, key, old); err != nil {
			return objects.Absent, err
		}
		if _, err := p.Finish(ctx, key, upload, tags, objects.Any, c); err != nil {
			return objects.Absent, err
		}
		there, err := o.Stat(ctx, key)
		return there.Version, err
	}
	return &with
}
