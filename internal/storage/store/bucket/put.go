package bucket

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
)

// putsAtOnce is how many objects one Put sends at the same time.
const putsAtOnce = 8

// Put implements store.Store.
func (b *Bucket) Put(ctx context.Context, objects ...store.Object) error {
	for _, o := range objects {
		if err := b.checkCall(ctx, "publish", o.Name); err != nil {
			return err
		}
	}
	errs := make([]error, len(objects))
	room := make(chan bool, putsAtOnce)
	var wg sync.WaitGroup
	for i := 1; i < len(objects); i++ {
		wg.Go(func() {
			room <- true
			defer func() { <-room }()
			errs[i] = b.put(ctx, objects[i])
		})
	}
	if len(objects) > 0 {
		errs[0] = b.put(ctx, objects[0])
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return errors.Join(errs...)
}

func (b *Bucket) put(ctx context.Context, o store.Object) error {
	fault.Point(fault.StorePutTempWritten)
	if err := b.mine(ctx); err != nil {
		return err
	}
	for patience := b.patience(); ; {
		_, err := b.write(ctx, o.Name, objects.Absent, content(o.Name, o.Data))
		if !errors.Is(err, objects.ErrRefused) {
			fault.Point(fault.StorePutRenamed)
			return b.failed("publish", o.Name, err)
		}
		conflict, err := b.compare(ctx, o)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile
			err = patience.waitRetry(ctx, "publish", o.Name, seenRefusedAbsent)
		case errors.Is(err, store.ErrChanged):
			err = patience.waitRetry(ctx, "publish", o.Name, seenOtherVersion)
		case conflict != nil:
			return conflict
		case err == nil:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// compare compares the existing object with o.
func (b *Bucket) compare(ctx context.Context, o store.Object) (*store.ConflictError, error) {
	there, err := b.Open(ctx, o.Name)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	conflict, err := store.Compare(there, o)
	if sum := there.(*reader).object.Sum; conflict != nil && sum != "" && sum == sumLike(sum, o.Data) {
		return nil, b.contradicts("publish", o.Name, "it tells the checksum of what is published, and sends other bytes")
	}
	return conflict, err
}

// sumLike returns the checksum of data, of the same kind as sum.
func sumLike(sum string, data []byte) string {
	kind, _, _ := strings.Cut(sum, ":")
	switch kind {
	case "md5":
		return fmt.Sprintf("md5:%x", md5.Sum(data))
	case "sha256":
		return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	case "crc32c":
		return fmt.Sprintf("crc32c:%08x", crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
	}
	return ""
}

// content returns the Content for a small object.
func content(name string, data []byte) objects.Content {
	return objects.Content{ReaderAt: bytes.NewReader(data), Size: int64(len(data)), Type: typeOf(name)}
}

// write is Service.Write with retries. A refused write may be caused by an earlier attempt of the same call. It returns the
// service's error.
func (b *Bucket) write(ctx context.Context, name string, old objects.Version, c objects.Content) (v objects.Version, err error) {
	if m := (multipart{b.service.Parts(), b}); m.needs(c.Size) {
		return m.write(ctx, name, old, c)
	}
	err = b.retryFor(ctx, writing, name, func(ctx context.Context) (err error) {
		ctx, cancel := b.bound(ctx, c.Size)
		defer cancel()
		v, err = b.service.Write(ctx, b.prefix+name, old, c)
		return err
	})
	return v, err
}

// Replace implements store.Store. The content is collected before it is sent.
func (b *Bucket) Replace(ctx context.Context, name string, write func(io.Writer) error) error {
	if err := b.checkCall(ctx, "replace", name); err != nil {
		return err
	}
	old, err := b.stat(ctx, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return b.failed("replace", name, err)
	}
	fault.Point(fault.StoreReplaceTempCreated)
	s := &spool{}
	defer s.drop()
	if err := write(s); err != nil {
		return err
	}
	fault.Point(fault.StoreReplaceTempWritten)
	if err := ctx.Err(); err != nil {
		return b.failed("replace", name, err)
	}
	if err := b.mine(ctx); err != nil {
		return err
	}
	c := objects.Content{ReaderAt: s, Size: s.size, Type: typeOf(name), Changes: true}
	_, err = b.write(ctx, name, old.Version, c)
	fault.Point(fault.StoreReplaceRenamed)
	if errors.Is(err, objects.ErrRefused) {
		return b.replaced(ctx, name, c)
	}
	return b.failed("replace", name, err)
}

// replaced returns nil if the object already has the content: an earlier attempt was not acknowledged.
func (b *Bucket) replaced(ctx context.Context, name string, c objects.Content) error {
	changed := fault.TryAgain(fmt.Errorf("replace %s/%s: another process did it at the same time: %w", b.url, name, store.ErrChanged))
	there, err := b.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return changed
	}
	if err != nil {
		return err
	}
	defer there.Close()
	if there.Size() != c.Size {
		return changed
	}
	equal, err := sameBytes(io.NewSectionReader(there, 0, c.Size), io.NewSectionReader(c, 0, c.Size))
	if err == nil && !equal || errors.Is(err, store.ErrChanged) {
		return changed
	}
	return err
}

// sameBytes compares two readers with the same length.
func sameBytes(a, b io.Reader) (bool, error) {
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(a, x)
		m, err2 := io.ReadFull(b, y)
		if !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return true, nil
		}
		if err != nil || err2 != nil {
			return false, errors.Join(err, err2)
		}
	}
}

// Time limits of one request: a fixed part, and a rate for its bytes.
const (
	requestTime  = 60 * time.Second
	slowestBytes = 128 << 10 // a second
)

// bound returns a context that ends a request that makes no progress. It also ends with ctx.
func (b *Bucket) bound(ctx context.Context, bytes int64) (context.Context, context.CancelFunc) {
	limit := requestTime + time.Duration(bytes/slowestBytes)*time.Second
	return context.WithTimeoutCause(ctx, limit, errSlow)
}

// errSlow is the cause when bound ends a request.
var errSlow = errors.New("no answer in time")

// types are the media types of objects in an output. Browsers need them to open a gallery.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".json": "application/json", ".jsonl": "application/x-ndjson", ".yaml": "text/plain; charset=utf-8",
	".txt": "text/plain; charset=utf-8", ".csv": "text/csv; charset=utf-8", ".mp4": "video/mp4", ".webm": "video/webm",
	".mkv": "video/x-matroska", ".gif": "image/gif", ".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp",
	".svg": "image/svg+xml", ".parquet": "application/vnd.apache.parquet",
}

// typeOf returns the media type of an object.
func typeOf(name string) string {
	if t, found := types[path.Ext(name)]; found {
		return t
	}
	return "application/octet-stream"
}
