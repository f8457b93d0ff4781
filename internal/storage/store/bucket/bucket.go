package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
)

// keyBytesMax is the limit of buckets.
const keyBytesMax = 1024

// Bucket is a store in a bucket: the objects below a prefix.
type Bucket struct {
	service objects.Service
	url     string // without a slash at the end
	prefix  string // prefix of all keys: "" or with a slash at the end
	secrets []string
	clock   Clock
	web     bool         // the store is a web server
	reach   *Reach       // limits waiting for an input's host; nil: no limit
	told    atomic.Int64 // time when the user was last told that a request waits, in nanoseconds since 1970

	broken   []store.Promise           // reasons for writing without conditions; nil: conditions are used
	contacts [removing + 1]atomic.Bool // kinds of requests that have succeeded

	mu    sync.Mutex
	lease *lease // held or being acquired; else nil
}

var _ store.Store = (*Bucket)(nil)

// Options for New. Most callers use the zero value.
type Options struct {
	Secrets []string // texts that must never be shown
	Clock   Clock    // nil: the machine's
	URL     string   // name of the store in messages; "": the address
	Reach   *Reach   // limits how long a run waits for an input's host; nil: wait as for outputs
	Web     bool     // the store is a web server: a refusal concerns one file, and no credentials are sent
}

// New returns the store at an address; service makes its requests.
func New(service objects.Service, at Address, o Options) *Bucket {
	b := &Bucket{service: service, url: at.String(), secrets: o.Secrets, clock: o.Clock, reach: o.Reach, web: o.Web}
	if o.URL != "" {
		b.url = o.URL
	}
	if at.Prefix != "" {
		b.prefix = at.Prefix + "/"
	}
	if b.clock == nil {
		b.clock = wall{}
	}
	return b
}

// Address is the address of an output or an input: gs://bucket/prefix.
type Address struct {
	Scheme, Bucket, Prefix string // Prefix has no slash at either end
}

// String returns the address without a slash at its end.
func (a Address) String() string {
	return strings.TrimSuffix(a.Scheme+"://"+a.Bucket+"/"+a.Prefix, "/")
}

// ParseAddress parses gs://bucket/prefix. Its errors do not contain text that may be a credential.
func ParseAddress(url string) (Address, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	bucket, prefix, _ := strings.Cut(rest, "/")
	prefix = strings.TrimSuffix(prefix, "/")
	why := ""
	switch {
	case strings.Contains(bucket, "@"):
		why = "it holds an @; credentials come from the environment, never from an address"
	case bucket == "" || strings.ContainsAny(bucket, " :?#%\\"):
		why = "the name of the bucket is missing or no name"
	case strings.ContainsAny(prefix, "?#"):
		why = "the prefix holds a ? or #"
	case prefix != "" && store.CheckName(prefix) != nil:
		return Address{}, fault.Usage(fmt.Errorf("address %s: %w", Redact(url), store.CheckName(prefix)))
	}
	if why != "" {
		return Address{}, fault.Usage(fmt.Errorf("address %s: %s; write %s://bucket/prefix", Redact(url), why, scheme))
	}
	return Address{scheme, bucket, prefix}, nil
}

// Look checks that the bucket answers. It returns fs.ErrNotExist if the bucket has no object of this output.
func (b *Bucket) Look(ctx context.Context) error {
	for _, err := range b.List(ctx, "", store.Deep) {
		return err
	}
	return &fs.PathError{Op: "open output", Path: b.url, Err: fs.ErrNotExist}
}

// URL implements store.Store.
func (b *Bucket) URL() string { return b.url }

// address returns the address of the object called name; "": of the bucket.
func (b *Bucket) address(name string) string {
	if name == "" {
		return b.url
	}
	return b.url + "/" + name
}

// Close implements store.Store. Readers stay valid.
func (b *Bucket) Close() error {
	b.service.Close()
	return nil
}

// checkCall checks the arguments of a call.
func (b *Bucket) checkCall(ctx context.Context, what string, names ...string) error {
	for _, name := range names {
		if err := store.CheckName(name); err != nil {
			return err
		}
		if n := len(b.prefix) + len(name); n > keyBytesMax {
			return fmt.Errorf("output name %.80q...: with the prefix of the output it is %d bytes long, the limit of a "+
				"bucket is %d", name, n, keyBytesMax)
		}
	}
	if err := ctx.Err(); err != nil {
		return b.failed(what, strings.Join(names, " "), err)
	}
	return nil
}

// stat is Service.Stat with retries. It returns the service's error.
func (b *Bucket) stat(ctx context.Context, name string) (o objects.Object, err error) {
	err = b.retryFor(ctx, reading, name, func(ctx context.Context) (err error) {
		ctx, cancel := b.bound(ctx, 0)
		defer cancel()
		o, err = b.service.Stat(ctx, b.prefix+name)
		return err
	})
	return o, err
}

// Stat implements store.Store.
func (b *Bucket) Stat(ctx context.Context, name string) (store.Info, error) {
	if err := b.checkCall(ctx, "stat", name); err != nil {
		return store.Info{}, err
	}
	o, err := b.stat(ctx, name)
	if err != nil {
		return store.Info{}, b.failed("stat", name, err)
	}
	return infoOf(o, name), nil
}

// Sizes implements store.Store.
func (b *Bucket) Sizes(context.Context) store.Sizes { return store.ListSizes(b) }

// List implements store.Store. It skips keys that are not valid names, such as those that consoles create for folders.
func (b *Bucket) List(ctx context.Context, prefix string, depth store.Depth) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		err := store.CheckPrefix(prefix)
		if err == nil || prefix == "" {
			err = b.checkCall(ctx, "list")
		}
		if err != nil {
			yield(store.Info{}, err)
			return
		}
		for found, err := range b.pages(ctx, prefix, depth == store.Flat, pageKeys) {
			if err != nil {
				yield(store.Info{}, err)
				return
			}
			for _, o := range found {
				name := strings.TrimPrefix(o.Key, b.prefix)
				if store.CheckName(name) == nil && !yield(infoOf(o, name), nil) {
					return
				}
			}
		}
	}
}

// Remove implements store.Store.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	if err := b.checkCall(ctx, "remove", name); err != nil {
		return err
	}
	o, err := b.stat(ctx, name)
	if err != nil {
		return b.failed("remove", name, err)
	}
	if err := b.mine(ctx); err != nil {
		return err
	}
	tries := 0
	err = b.retryFor(ctx, removing, name, func(ctx context.Context) error {
		tries++
		ctx, cancel := b.bound(ctx, 0)
		defer cancel()
		return b.service.Remove(ctx, o)
	})
	switch {
	case errors.Is(err, fs.ErrNotExist) && tries > 1:
		return nil // an earlier attempt succeeded without an acknowledgement
	case errors.Is(err, objects.ErrRefused):
		return fault.TryAgain(fmt.Errorf("remove %s: %w", name, store.ErrChanged))
	}
	return b.failed("remove", name, err)
}
