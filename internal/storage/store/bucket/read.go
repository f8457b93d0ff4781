package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/objects"
)

// windowBytes is how much a reader fetches for a small read, and windows is how many windows it caches.
const (
	windowBytes = 1 << 20
	windows     = 4
)

// Open implements store.Store.
func (b *Bucket) Open(ctx context.Context, name string) (store.Reader, error) {
	if err := b.checkCall(ctx, "open", name); err != nil {
		return nil, err
	}
	o, err := b.stat(ctx, name)
	if err != nil {
		return nil, b.failed("open", name, err)
	}
	return b.reader(ctx, name, o), nil
}

// reader returns a reader of an object; name is its name in errors.
func (b *Bucket) reader(ctx context.Context, name string, o objects.Object) *reader {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	return &reader{bucket: b, name: name, object: o, ctx: ctx, stop: stop}
}

// reader reads one version of an object.
type reader struct {
	bucket *Bucket
	name   string
	object objects.Object
	ctx    context.Context // for all reads, until Close
	stop   context.CancelFunc

	mu     sync.Mutex
	near   [windows]window
	oldest int
}

// window is a fetched part of the object.
type window struct {
	offset int64
	data   []byte
}

// Size implements store.Reader.
func (r *reader) Size() int64 { return r.object.Size }

// Close implements store.Reader.
func (r *reader) Close() error {
	r.stop()
	return nil
}

// ReadAt implements store.Reader.
func (r *reader) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("read %s: negative offset %d", r.name, offset)
	}
	want := min(int64(len(p)), max(r.object.Size-offset, 0))
	n := 0
	for int64(n) < want {
		m, err := r.readSome(p[n:want], offset+int64(n))
		n += m
		if err != nil {
			return n, err
		}
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readSome reads at least one byte of p. p must be within the object.
func (r *reader) readSome(p []byte, offset int64) (int, error) {
	if len(p) >= windowBytes {
		if err := r.fetch(p, offset); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.near {
		if offset >= w.offset && offset < w.offset+int64(len(w.data)) {
			return copy(p, w.data[offset-w.offset:]), nil
		}
	}
	start := offset / windowBytes * windowBytes
	w := window{start, make([]byte, min(windowBytes, r.object.Size-start))}
	if err := r.fetch(w.data, start); err != nil {
		return 0, err
	}
	r.near[r.oldest] = w
	r.oldest = (r.oldest + 1) % windows
	return copy(p, w.data[offset-start:]), nil
}

// fetch fills p. After a broken connection it continues where it was.
func (r *reader) fetch(p []byte, offset int64) error {
	n := 0
	err := r.bucket.retryFor(r.ctx, reading, r.name, func(ctx context.Context) error {
		ctx, cancel := r.bucket.bound(ctx, int64(len(p)-n))
		defer cancel()
		body, err := r.bucket.service.Read(ctx, r.object, offset+int64(n), int64(len(p)-n))
		if err != nil {
			return err
		}
		defer body.Close()
		m, err := io.ReadFull(body, p[n:])
		n += m
		return err
	})
	if errors.Is(err, objects.ErrRefused) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s/%s: %w", r.bucket.url, r.name, store.ErrChanged)
	}
	return r.bucket.failed("read", r.name, err)
}
