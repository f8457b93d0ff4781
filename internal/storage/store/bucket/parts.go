package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"latentbeam/schemas/objects"
)

// partsAtOnce is how many parts of an object are sent at the same time.
const partsAtOnce = 4

// multipart sends large objects in parts.
type multipart struct {
	*objects.Parts // nil: the service has no such requests
	bucket         *Bucket
}

// needs reports whether an object of a size must be sent in parts.
func (m multipart) needs(size int64) bool { return m.Parts != nil && size > m.Above }

// write is Bucket.write for a large object. Each part is retried separately, so a broken connection costs one part. It checks the
// existing object first, because the service refuses only after the last part.
func (m multipart) write(ctx context.Context, name string, old objects.Version, c objects.Content) (v objects.Version, err error) {
	switch there, err := m.bucket.stat(ctx, name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return objects.Absent, err
	case there.Version != old:
		return objects.Absent, objects.ErrRefused
	}
	key, upload := m.bucket.prefix+name, ""
	err = m.bucket.retry(ctx, writing, func(ctx context.Context) (err error) {
		ctx, cancel := m.bucket.bound(ctx, 0)
		defer cancel()
		upload, err = m.Begin(ctx, key, c)
		return err
	})
	if err != nil {
		return objects.Absent, err
	}
	tags, err := m.send(ctx, key, upload, c)
	if err == nil {
		err = m.bucket.mine(ctx) // the last check was long ago
	}
	if err == nil {
		err = m.bucket.retry(ctx, writing, func(ctx context.Context) (err error) {
			ctx, cancel := m.bucket.bound(ctx, 0)
			defer cancel()
			v, err = m.Finish(ctx, key, upload, tags, old, c)
			return err
		})
	}
	if err != nil {
		m.drop(ctx, objects.Upload{Key: key, ID: upload})
	}
	return v, err
}

// send sends all parts of an object and returns their entity tags. It stops at the first error.
func (m multipart) send(ctx context.Context, key, upload string, c objects.Content) ([]string, error) {
	bytes := max(m.Bytes, (c.Size+m.Most-1)/m.Most)
	tags := make([]string, (c.Size+bytes-1)/bytes)
	sending, ctx := errgroup.WithContext(ctx)
	sending.SetLimit(partsAtOnce)
	for i := range tags {
		sending.Go(func() error {
			size := min(bytes, c.Size-int64(i)*bytes)
			return m.bucket.retry(ctx, writing, func(ctx context.Context) (err error) {
				ctx, cancel := m.bucket.bound(ctx, size)
				defer cancel()
				tags[i], err = m.Send(ctx, key, upload, i+1, io.NewSectionReader(c, int64(i)*bytes, size))
				return err
			})
		})
	}
	return tags, sending.Wait()
}

// dropTime limits the request that aborts an upload.
const dropTime = 20 * time.Second

// drop aborts an upload, even if ctx has ended. A later run aborts what stays behind.
func (m multipart) drop(ctx context.Context, u objects.Upload) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	_ = m.bucket.retry(ctx, writing, func(ctx context.Context) error { return m.Drop(ctx, u.Key, u.ID) })
}

// oldUpload is the age from which a multipart upload is considered abandoned: no upload takes a day.
const oldUpload = 24 * time.Hour

// clean aborts the uploads of dead processes, and returns their number.
func (m multipart) clean(ctx context.Context) (n int, err error) {
	if m.Parts == nil {
		return 0, nil
	}
	var old []objects.Upload
	err = m.bucket.retry(ctx, writing, func(ctx context.Context) (err error) {
		ctx, cancel := m.bucket.bound(ctx, 0)
		defer cancel()
		old, err = m.Begun(ctx, m.bucket.prefix, m.bucket.clock.Now().Add(-oldUpload))
		return err
	})
	var f *objects.Refusal
	if errors.As(err, &f) && (f.Status == http.StatusForbidden || f.Status == http.StatusNotImplemented) {
		return 0, nil // some users may not list them, and some services cannot
	}
	if err != nil {
		return 0, fmt.Errorf("list uploads: %w", err)
	}
	for _, u := range old {
		m.drop(ctx, u)
	}
	return len(old), nil
}
