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

// inParts returns how an object of a size is sent in parts, nil if it needs one request.
func (b *Bucket) inParts(size int64) *objects.Parts {
	p := b.service.Parts()
	if p == nil || size <= p.Above {
		return nil
	}
	return p
}

// writeParts is write for a large object. Each part is retried separately, so a broken connection costs one part. It checks the
// existing object first, because the service refuses only after the last part.
func (b *Bucket) writeParts(ctx context.Context, p *objects.Parts, name string, old objects.Version, c objects.Content) (v objects.Version, err error) {
	switch there, err := b.stat(ctx, name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return objects.Absent, err
	case there.Version != old:
		return objects.Absent, objects.ErrRefused
	}
	key, upload := b.prefix+name, ""
	err = b.retry(ctx, writing, func(ctx context.Context) (err error) {
		ctx, cancel := b.bound(ctx, 0)
		defer cancel()
		upload, err = p.Begin(ctx, key, c)
		return err
	})
	if err != nil {
		return objects.Absent, err
	}
	tags, err := b.sendParts(ctx, p, key, upload, c)
	if err == nil {
		err = b.mine(ctx) // the last check was long ago
	}
	if err == nil {
		err = b.retry(ctx, writing, func(ctx context.Context) (err error) {
			ctx, cancel := b.bound(ctx, 0)
			defer cancel()
			v, err = p.Finish(ctx, key, upload, tags, old, c)
			return err
		})
	}
	if err != nil {
		b.drop(ctx, p, objects.Upload{Key: key, ID: upload})
	}
	return v, err
}

// sendParts sends all parts of an object and returns their entity tags. It stops at the first error.
func (b *Bucket) sendParts(ctx context.Context, p *objects.Parts, key, upload string, c objects.Content) ([]string, error) {
	bytes := max(p.Bytes, (c.Size+p.Most-1)/p.Most)
	tags := make([]string, (c.Size+bytes-1)/bytes)
	sending, ctx := errgroup.WithContext(ctx)
	sending.SetLimit(partsAtOnce)
	for i := range tags {
		sending.Go(func() error {
			size := min(bytes, c.Size-int64(i)*bytes)
			return b.retry(ctx, writing, func(ctx context.Context) (err error) {
				ctx, cancel := b.bound(ctx, size)
				defer cancel()
				tags[i], err = p.Send(ctx, key, upload, i+1, io.NewSectionReader(c, int64(i)*bytes, size))
				return err
			})
		})
	}
	return tags, sending.Wait()
}

// dropTime limits the request that aborts an upload.
const dropTime = 20 * time.Second

// drop aborts an upload, even if ctx has ended. A later run aborts what stays behind.
func (b *Bucket) drop(ctx context.Context, p *objects.Parts, u objects.Upload) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	_ = b.retry(ctx, writing, func(ctx context.Context) error { return p.Drop(ctx, u.Key, u.ID) })
}

// oldUpload is the age from which a multipart upload is considered abandoned: no upload takes a day.
const oldUpload = 24 * time.Hour

// cleanUploads aborts the uploads of dead processes, and returns their number.
func (b *Bucket) cleanUploads(ctx context.Context) (n int, err error) {
	p := b.service.Parts()
	if p == nil {
		return 0, nil
	}
	var old []objects.Upload
	err = b.retry(ctx, writing, func(ctx context.Context) (err error) {
		ctx, cancel := b.bound(ctx, 0)
		defer cancel()
		old, err = p.Begun(ctx, b.prefix, b.clock.Now().Add(-oldUpload))
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
		b.drop(ctx, p, u)
	}
	return len(old), nil
}
