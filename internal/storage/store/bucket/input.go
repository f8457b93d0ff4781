package bucket

import (
	"context"
	"io/fs"
	"iter"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/objects"
)

// Find describes the object with a key. Unlike a name of a Store, the key of an input may be any text.
func (b *Bucket) Find(ctx context.Context, key string) (objects.Object, error) {
	if err := ctx.Err(); err != nil {
		return objects.Object{}, b.failed("open", key, err)
	}
	if key == "" || len(key) > keyBytesMax {
		return objects.Object{}, &fs.PathError{Op: "open", Path: b.url + "/" + key, Err: fs.ErrNotExist}
	}
	o, err := b.stat(ctx, key)
	return o, b.failed("open", key, err)
}

// Objects yields the objects whose keys start with prefix, sorted by key. flat excludes keys with a slash after the prefix. An
// error ends the list.
func (b *Bucket) Objects(ctx context.Context, prefix string, flat bool) iter.Seq2[objects.Object, error] {
	return func(yield func(objects.Object, error) bool) {
		for found, err := range b.pages(ctx, prefix, flat, pageKeys) {
			if err != nil {
				yield(objects.Object{}, err)
				return
			}
			for _, o := range found {
				if !yield(o, nil) {
					return
				}
			}
		}
	}
}

// Read opens a version of an object that Find or Objects returned. Reads end with Close, not with ctx.
func (b *Bucket) Read(ctx context.Context, o objects.Object) store.Reader {
	return b.reader(ctx, o.Key, o)
}

// pageKeys is how many objects are requested at a time. Services do not return more.
const pageKeys = 1000

// pages yields the pages of a listing, with at most most objects each. It ends with an error if a request fails or the listing
// does not end.
func (b *Bucket) pages(ctx context.Context, prefix string, flat bool, most int) iter.Seq2[[]objects.Object, error] {
	return func(yield func([]objects.Object, error) bool) {
		var p progress
		for page, first := "", true; first || page != ""; first = false {
			found, next, err := b.page(ctx, prefix, flat, page, most)
			if err != nil {
				yield(nil, b.failed("list", prefix, err))
				return
			}
			if !yield(found, nil) {
				return
			}
			if wrong := p.check(found, page, next); wrong != "" {
				yield(nil, b.contradicts("list", prefix, wrong))
				return
			}
			page = next
		}
	}
}

// page is Service.List with retries.
func (b *Bucket) page(ctx context.Context, prefix string, flat bool, page string, most int) (found []objects.Object, next string, err error) {
	err = b.retryFor(ctx, listing, prefix, func(ctx context.Context) (err error) {
		ctx, cancel := b.bound(ctx, 0)
		defer cancel()
		found, next, err = b.service.List(ctx, b.prefix+prefix, flat, page, most)
		return err
	})
	return found, next, err
}
