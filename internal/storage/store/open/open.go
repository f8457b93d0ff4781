// Package open opens the store for an output's address. A new kind of store adds its scheme here.
package open

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"latentbeam/internal/config"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/storage/store/gcs"
	"latentbeam/internal/storage/store/s3"
	"latentbeam/internal/storage/store/web"
	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
)

// Output opens the store at url, a path or the address of a bucket's prefix, and creates what is missing. A bucket itself must
// exist and keep the promises that jobs rely on: they are checked unless this host has checked them within a day.
func Output(ctx context.Context, url string) (store.Store, error) { return toWrite(ctx, url, false) }

// Unsafe is Output for a single run: if a bucket does not keep the promises, it is written without conditions.
func Unsafe(ctx context.Context, url string) (store.Store, error) { return toWrite(ctx, url, true) }

func toWrite(ctx context.Context, url string, unsafe bool) (store.Store, error) {
	if store.HasScheme(url) {
		b, err := inBucket(ctx, url)
		if err != nil {
			return nil, err
		}
		if err := b.Look(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := prove(ctx, b, url, unsafe); err != nil {
			return nil, err
		}
		return b, nil
	}
	d, err := dir.Open(url)
	if err != nil {
		return nil, err
	}
	if _, local := d.FileSystem(); !local {
		if err := proveDir(ctx, d.Path(), unsafe); err != nil {
			d.Close()
			return nil, err
		}
	}
	return guarded(d, nil)
}

// Existing opens the store at url only for reading. If there is none, it returns fs.ErrNotExist and creates nothing.
func Existing(ctx context.Context, url string) (store.Store, error) {
	if store.HasScheme(url) {
		b, err := inBucket(ctx, url)
		if err != nil {
			return nil, err
		}
		if err := b.Look(ctx); err != nil {
			return nil, err
		}
		return b, nil
	}
	return guarded(dir.OpenExisting(url))
}

// inBucket opens the store for an address such as gs://bucket/prefix.
func inBucket(ctx context.Context, url string) (*bucket.Bucket, error) {
	scheme, _, _ := strings.Cut(url, "://")
	if !slices.Contains(config.BucketSchemes, scheme) {
		return nil, fault.Usage(fmt.Errorf("open output %s: there is no store for %s:// addresses, only for paths, %s: mount it, and "+
			"give the path", bucket.Redact(url), scheme, config.OrList(config.BucketSchemes)))
	}
	at, err := bucket.ParseAddress(url)
	if err != nil {
		return nil, err
	}
	return Bucket(ctx, at, bucket.Options{})
}

// added are the schemes of programs outside of this module, by name.
var added = map[string]objects.Scheme{}

// Add adds schemes to gs:// and s3://. A program calls it once, before it opens anything.
func Add(more []objects.Scheme) error {
	for _, s := range more {
		switch {
		case s.Name == "" || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyz0123456789") != "":
			return fmt.Errorf("scheme %q: a name has lower-case letters and digits", s.Name)
		case s.Open == nil:
			return fmt.Errorf("scheme %s: it has no function Open", s.Name)
		case slices.Contains(config.InputSchemes, s.Name) || s.Name == "file":
			return fmt.Errorf("scheme %s: the name is taken", s.Name)
		}
		added[s.Name] = s
		config.BucketSchemes = append(config.BucketSchemes, s.Name)
		config.InputSchemes = append(config.InputSchemes, s.Name)
	}
	return nil
}

// Bucket opens an address of gs://, s3://, http://, https:// or an added scheme. http:// and https:// can only be read by key
// (bucket.Find and bucket.Read); the keys are paths.
func Bucket(ctx context.Context, at bucket.Address, o bucket.Options) (*bucket.Bucket, error) {
	switch at.Scheme {
	case gcs.Scheme:
		return gcs.Open(ctx, at, nil, o)
	case s3.Scheme:
		return s3.Open(ctx, at, nil, o)
	}
	if s, found := added[at.Scheme]; found {
		service, err := s.Open(ctx, at.Bucket)
		if err != nil {
			return nil, fault.Usage(fmt.Errorf("open %s: %w", at, err))
		}
		if s.Secrets != nil {
			o.Secrets = append(o.Secrets, s.Secrets()...)
		}
		return bucket.New(service, at, o), nil
	}
	return web.Open(at, nil, o)
}
