package open

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket"
)

// Broken returns the promises that an output's store does not keep. It was then opened with Unsafe.
func Broken(s store.Store) []store.Promise {
	if b, ok := s.(*bucket.Bucket); ok {
		return b.Broken()
	}
	return nil
}

// Prove checks a store by its address or path, in the complete or the short form (bucket.Prove, ProveDir).
func Prove(ctx context.Context, url string, whole bool) ([]store.Promise, error) {
	if !store.HasScheme(url) {
		return ProveDir(ctx, url, whole)
	}
	b, err := inBucket(ctx, url)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	promises, err := b.Prove(ctx, whole)
	if err == nil {
		remember(url, promises)
	}
	return promises, err
}

// provenFor is how long a host trusts a bucket after a check.
const provenFor = 24 * time.Hour

// prove checks a bucket that a job writes to, unless this host checked it within a day.
func prove(ctx context.Context, b *bucket.Bucket, url string, unsafe bool) error {
	if !unsafe && remembered(url) { // an unsafe store has failed a check
		return nil
	}
	promises, err := b.Prove(ctx, false)
	if err != nil {
		return err
	}
	for _, p := range promises {
		if p.State == store.Unknown {
			slog.Warn("a check of the output's store could not be made", "output", b.URL(), "promise", p.Name, "found", p.Found)
		}
	}
	remember(url, promises)
	err = store.Refuse(url, promises)
	if err != nil && unsafe {
		b.OneWriter(store.BrokenPromises(promises))
		return nil
	}
	return err
}

// proveDir is prove for a directory that other hosts may have mounted.
func proveDir(ctx context.Context, path string, unsafe bool) error {
	if remembered(path) {
		return nil
	}
	promises, err := ProveDir(ctx, path, false)
	if err != nil {
		return err
	}
	remember(path, promises)
	if err := store.Refuse(path, promises); err != nil && !unsafe {
		return err
	}
	return nil
}

// mark returns the file whose time says when this host has checked a bucket, "" if the host has no cache directory.
func mark(url string) string {
	root, err := fingerprints.CacheDir()
	if err != nil {
		return ""
	}
	at := bucket.Address{Bucket: url} // a path
	if store.HasScheme(url) {
		if at, err = bucket.ParseAddress(url); err != nil {
			return ""
		}
	}
	id := sha256.New()
	for _, part := range []string{at.Scheme, at.Bucket, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"),
		os.Getenv("STORAGE_EMULATOR_HOST")} {
		id.Write([]byte(part + "\n"))
	}
	return filepath.Join(root, "stores", hex.EncodeToString(id.Sum(nil)[:16]))
}

// remembered reports whether this host has recently checked a bucket with success.
func remembered(url string) bool {
	info, err := os.Stat(mark(url))
	return err == nil && time.Since(info.ModTime()).Abs() < provenFor
}

// remember records that a bucket passed a check, or removes the record. If the record cannot be written, the next job checks
// again.
func remember(url string, promises []store.Promise) {
	path := mark(url)
	if path == "" {
		return
	}
	if len(store.BrokenPromises(promises)) > 0 {
		_ = os.Remove(path)
		return
	}
	if os.MkdirAll(filepath.Dir(path), 0o700) == nil {
		_ = os.WriteFile(path, []byte(url+"\n"), 0o600)
	}
}
