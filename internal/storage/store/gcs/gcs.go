// Package gcs makes requests to buckets of Google Cloud Storage. It uses the application default credentials.
// STORAGE_EMULATOR_HOST names another server.
package gcs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"

	"latentbeam/internal/storage/store/bucket"
	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
)

// Scheme is the scheme of addresses.
const Scheme = "gs"

const (
	chunkBytes = 16 << 20 // chunk of an upload that is resumed after a broken connection; smaller objects need one request
)

// Open opens the bucket of an address. transport is nil except in tests; with a transport no credentials are used.
func Open(ctx context.Context, at bucket.Address, transport http.RoundTripper, o bucket.Options) (*bucket.Bucket, error) {
	options := []option.ClientOption{storage.WithJSONReads()}
	var err error
	if transport != nil {
		options = append(options, option.WithHTTPClient(&http.Client{Transport: transport}), option.WithoutAuthentication())
	} else if os.Getenv("STORAGE_EMULATOR_HOST") == "" {
		var own *auth.Credentials
		own, err = findCredentials()
		options = append(options, option.WithAuthCredentials(own))
	}
	var client *storage.Client
	if err == nil {
		client, err = storage.NewClient(context.WithoutCancel(ctx), options...)
	}
	if err != nil {
		return nil, fault.Usage(fmt.Errorf("open %s: %s; set up application default credentials", at, bucket.Redact(err.Error())))
	}
	client.SetRetry(storage.WithPolicy(storage.RetryNever))
	return bucket.New(&service{client.Bucket(at.Bucket)}, at, o), nil
}

type service struct{ bucket *storage.BucketHandle }

// Close implements objects.Service. The client keeps its connections, because readers may still use them.
func (s *service) Close() {}

func object(a *storage.ObjectAttrs) objects.Object {
	return objects.Object{Key: a.Name, Version: objects.Version(strconv.FormatInt(a.Generation, 10)), Size: a.Size, Time: a.Updated,
		Sum: fmt.Sprintf("crc32c:%08x", a.CRC32C)}
}

func generation(v objects.Version) int64 {
	n, _ := strconv.ParseInt(string(v), 10, 64)
	return n
}

// Stat implements objects.Service.
func (s *service) Stat(ctx context.Context, key string) (objects.Object, error) {
	attrs, err := s.bucket.Object(key).Attrs(ctx)
	if err != nil {
		return objects.Object{}, translate(err)
	}
	return object(attrs), nil
}

// Read implements objects.Service.
func (s *service) Read(ctx context.Context, o objects.Object, offset, length int64) (io.ReadCloser, error) {
	from := s.bucket.Object(o.Key)
	if o.Version != objects.Any {
		from = from.Generation(generation(o.Version))
	}
	r, err := from.NewRangeReader(ctx, offset, length)
	if err != nil {
		return nil, translate(err)
	}
	return body{r}, nil
}

// body translates the errors of a response body.
type body struct{ *storage.Reader }

// Read implements io.Reader.
func (r body) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = translate(err)
	}
	return n, err
}

// Write implements objects.Service.
func (s *service) Write(ctx context.Context, key string, old objects.Version, c objects.Content) (objects.Version, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // aborts an upload that is not closed
	o := s.bucket.Object(key)
	switch old {
	case objects.Absent:
		o = o.If(storage.Conditions{DoesNotExist: true})
	case objects.Any:
	default:
		o = o.If(storage.Conditions{GenerationMatch: generation(old)})
	}
	if c.Size > chunkBytes {
		o = o.Retryer(storage.WithPolicy(storage.RetryIdempotent))
	}
	w := o.NewWriter(ctx)
	w.ContentType = c.Type
	if c.Changes {
		w.CacheControl = "no-cache"
	}
	w.ChunkSize = 0
	if c.Size > chunkBytes {
		w.ChunkSize = chunkBytes
	}
	if _, err := io.Copy(w, io.NewSectionReader(c, 0, c.Size)); err != nil {
		return objects.Absent, translate(err)
	}
	if err := w.Close(); err != nil {
		return objects.Absent, translate(err)
	}
	return object(w.Attrs()).Version, nil
}

// Parts implements objects.Service: Write itself sends large objects in parts.
func (s *service) Parts() *objects.Parts { return nil }

// List implements objects.Service.
func (s *service) List(ctx context.Context, prefix string, flat bool, page string, most int) (found []objects.Object, next string, err error) {
	query := &storage.Query{Prefix: prefix}
	if flat {
		query.Delimiter = "/"
	}
	if err := query.SetAttrSelection([]string{"Name", "Size", "Generation", "Updated", "CRC32C"}); err != nil {
		return nil, "", err
	}
	all := s.bucket.Objects(ctx, query)
	answer := all.PageInfo()
	answer.Token, answer.MaxSize = page, most
	for more := true; more; more = answer.Remaining() > 0 { // one page; a full page may need many requests
		a, err := all.Next()
		if errors.Is(err, iterator.Done) {
			break
		}
		if translated := translate(err); errors.Is(translated, fs.ErrNotExist) {
			return nil, "", &objects.Refusal{Status: http.StatusNotFound, Code: "notFound"}
		} else if translated != nil {
			return nil, "", translated
		}
		if a.Prefix == "" {
			found = append(found, object(a))
		}
	}
	return found, answer.Token, nil
}

// Remove implements objects.Service.
func (s *service) Remove(ctx context.Context, o objects.Object) error {
	there := s.bucket.Object(o.Key)
	if o.Version != objects.Any {
		there = there.If(storage.Conditions{GenerationMatch: generation(o.Version)})
	}
	return translate(there.Delete(ctx))
}

// translate converts errors to those that package bucket knows.
func translate(err error) error {
	var answer *googleapi.Error
	var refused *objects.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused): // by refusingTokens
		return refused
	case errors.Is(err, storage.ErrBucketNotExist):
		return &objects.Refusal{Status: http.StatusNotFound, Code: "notFound"}
	case errors.Is(err, storage.ErrObjectNotExist):
		return fs.ErrNotExist
	case !errors.As(err, &answer):
		return err
	case answer.Code == http.StatusPreconditionFailed, answer.Code == http.StatusNotModified:
		return objects.ErrRefused
	case answer.Code == http.StatusNotFound:
		if strings.Contains(answer.Message, "bucket does not exist") {
			return &objects.Refusal{Status: http.StatusNotFound, Code: "notFound"}
		}
		return fs.ErrNotExist
	}
	code := ""
	if len(answer.Errors) > 0 {
		code = answer.Errors[0].Reason
	}
	return &objects.Refusal{Status: answer.Code, Code: code, Text: answer.Message}
}
