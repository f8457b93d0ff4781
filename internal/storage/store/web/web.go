// Package web reads single files from web servers. A server provides a file and ranges of it, but no listing. A server without
// ranges is read from the start each time.
package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"latentbeam/internal/storage/store/bucket"
	"latentbeam/schemas/objects"
)

const redirectsMax = 10

var errOnlyRead = &objects.Refusal{Status: http.StatusMethodNotAllowed,
	Text: "a web server is only read, and has no list of its files: use gs:// or s3://"}

// Open opens the server of an address. Its prefix must be empty. transport is nil except in tests.
func Open(at bucket.Address, transport http.RoundTripper, o bucket.Options) (*bucket.Bucket, error) {
	if at.Prefix != "" {
		return nil, fmt.Errorf("open %s: files of a web server are named by their whole path", at)
	}
	if transport == nil {
		plain := http.DefaultTransport.(*http.Transport).Clone()
		plain.DisableCompression = true // otherwise the size is not the size of the content
		transport = plain
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, before []*http.Request) error {
		switch {
		case len(before) >= redirectsMax:
			return &objects.Refusal{Status: http.StatusLoopDetected, Text: "too many redirects"}
		case before[0].URL.Scheme == "https" && r.URL.Scheme != "https":
			return &objects.Refusal{Status: http.StatusMisdirectedRequest, Text: "a redirect away from https"}
		}
		return nil
	}}
	o.Web = true
	return bucket.New(&service{client, at}, at, o), nil
}

type service struct {
	client *http.Client
	at     bucket.Address
}

// Close implements objects.Service.
func (s *service) Close() { s.client.CloseIdleConnections() }

// get requests the bytes of a file from first to last, inclusive. A key is a path as the user wrote it.
func (s *service) get(ctx context.Context, key string, first, last int64) (*http.Response, error) {
	u, err := url.Parse(s.at.Scheme + "://" + s.at.Bucket + "/" + key)
	if err != nil || u.User != nil || u.Host != s.at.Bucket {
		return nil, &objects.Refusal{Status: http.StatusBadRequest, Text: "no address of a file"}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept-Encoding", "identity")
	if last >= first {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", first, last))
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	switch answer.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
		return answer, nil
	}
	answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		return nil, fs.ErrNotExist
	}
	return nil, &objects.Refusal{Status: answer.StatusCode, Text: http.StatusText(answer.StatusCode)}
}

// Stat implements objects.Service. It requests the first byte, because some addresses are valid only for GET.
func (s *service) Stat(ctx context.Context, key string) (objects.Object, error) {
	answer, err := s.get(ctx, key, 0, 0)
	var refused *objects.Refusal
	if errors.As(err, &refused) && refused.Status == http.StatusRequestedRangeNotSatisfiable { // an empty file
		answer, err = s.get(ctx, key, 0, -1)
	}
	if err != nil {
		return objects.Object{}, err
	}
	defer answer.Body.Close()
	o := objects.Object{Key: key, Version: version(answer), Size: answer.ContentLength}
	if answer.StatusCode == http.StatusPartialContent {
		_, total, _ := strings.Cut(answer.Header.Get("Content-Range"), "/")
		if o.Size, err = strconv.ParseInt(total, 10, 64); err != nil {
			return o, &objects.Refusal{Status: http.StatusNotImplemented, Text: "the server does not tell the size of the file"}
		}
	}
	if o.Size < 0 || o.Version == objects.Absent {
		return s.whole(ctx, key)
	}
	return o, nil
}

// whole describes a file by its content, because a server may report neither size nor version.
func (s *service) whole(ctx context.Context, key string) (objects.Object, error) {
	answer, err := s.get(ctx, key, 0, -1)
	if err != nil {
		return objects.Object{}, err
	}
	defer answer.Body.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, answer.Body)
	digest := contentPrefix + hex.EncodeToString(sum.Sum(nil))
	return objects.Object{Key: key, Version: objects.Version(digest), Size: n, Sum: digest}, err
}

// contentPrefix is the prefix of a version that is the digest of the content.
const contentPrefix = "sha256:"

// version returns what distinguishes the contents of a file.
func version(answer *http.Response) objects.Version {
	if tag := answer.Header.Get("ETag"); tag != "" {
		return objects.Version(tag)
	}
	return objects.Version(answer.Header.Get("Last-Modified"))
}

// Read implements objects.Service.
func (s *service) Read(ctx context.Context, o objects.Object, offset, length int64) (io.ReadCloser, error) {
	answer, err := s.get(ctx, o.Key, offset, offset+length-1)
	if err != nil {
		return nil, err
	}
	known := !strings.HasPrefix(string(o.Version), contentPrefix)
	if known && version(answer) != o.Version {
		answer.Body.Close()
		return nil, objects.ErrRefused
	}
	if answer.StatusCode == http.StatusOK { // the server ignores ranges
		if _, err := io.CopyN(io.Discard, answer.Body, offset); err != nil {
			answer.Body.Close()
			return nil, err
		}
	}
	return answer.Body, nil
}

// Write implements objects.Service.
func (s *service) Write(context.Context, string, objects.Version, objects.Content) (objects.Version, error) {
	return objects.Absent, errOnlyRead
}

// Parts implements objects.Service.
func (s *service) Parts() *objects.Parts { return nil }

// List implements objects.Service.
func (s *service) List(context.Context, string, bool, string, int) ([]objects.Object, string, error) {
	return nil, "", errOnlyRead
}

// Remove implements objects.Service.
func (s *service) Remove(context.Context, objects.Object) error { return errOnlyRead }
