package bucket

import (
	"context"
	"io/fs"
	"iter"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/objects"
)

// Find returns the size and version of the object with this key. Unlike a name of a Store, the key of an input may be any text.
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

// Read opens the version of the object that Find or Objects returned. Reads may go on after ctx has ended; Close ends them.
func (b *Bucket) Read(ctx context.Context, o objects.Object) store.Reader {
	return b.reader(ctx, o.Key, o)
}

// pageKeys is how many objects are requested at a time. Services do not return more.
const pageKeys = 1000

// pages yields the pages of a listing, each with at most limit objects. It ends with an error if a request fails or the listing
// does not end.
func (b *Bucket) pages(ctx context.Context, prefix string, flat bool, limit int) iter.Seq2[[]objects.Object, error] {
	return func(yield func([]objects.Object, error) bool) {
		var p progress
		for token, first := "", true; first || token != ""; first = false {
			found, next, err := b.page(ctx, prefix, flat, token, limit)
			if err != nil {
				yield(nil, b.failed("list", prefix, err))
				return
			}
			if !yield(found, nil) {
				return
			}
			if wrong := p.check(found, token, next); wrong != "" {
				yield(nil, b.contradicts("list", prefix, wrong))
				return
			}
			token = next
		}
	}
}

// page is Service.List with retries. token selects the page; "" is the first one.
func (b *Bucket) page(ctx context.Context, prefix string, flat bool, token string, limit int) (found []objects.Object, next string, err error) {
	err = b.retryFor(ctx, listing, prefix, func(ctx context.Context) (err error) {
		ctx, cancel := b.bound(ctx, 0)
		defer cancel()
		found, next, err = b.service.List(ctx, b.prefix+prefix, flat, token, limit)
		return err
	})
	return found, next, err
}
