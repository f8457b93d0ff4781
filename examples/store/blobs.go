package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"latentbeam/schemas/objects"
)

// blobs is one container of Azure Blob Storage, by its REST service
// (https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api). A version is an entity tag.
type blobs struct {
	client    *http.Client
	base      *url.URL // of the container
	signature url.Values
}

// request sends a request, and returns an answer of success. What the service refuses is one of the errors of objects.Service.
func (b *blobs) request(ctx context.Context, method, key string, query url.Values, header http.Header, body io.Reader, size int64) (*http.Response, error) {
	u := *b.base
	if key != "" {
		u.Path += "/" + key
	}
	all := maps.Clone(b.signature)
	maps.Copy(all, query)
	u.RawQuery = all.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if header != nil {
		r.Header = header
	}
	r.Header.Set("x-ms-version", "2021-12-02")
	r.ContentLength = size
	answer, err := b.client.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	answer.Body.Close()
	code := answer.Header.Get("x-ms-error-code")
	switch {
	case answer.StatusCode == http.StatusPreconditionFailed, code == "BlobAlreadyExists":
		return nil, objects.ErrRefused
	case code == "BlobNotFound":
		return nil, fs.ErrNotExist
	}
	return nil, &objects.Refusal{Status: answer.StatusCode, Code: code, Text: http.StatusText(answer.StatusCode)}
}

// only is the header of a request that depends on the version that is there.
func only(old objects.Version) http.Header {
	h := http.Header{}
	switch old {
	case objects.Absent:
		h.Set("If-None-Match", "*")
	case objects.Any:
	default:
		h.Set("If-Match", string(old))
	}
	return h
}

// object describes a blob. md5 is in base64, as the service gives it.
func object(key, tag, modified, md5 string, size int64) (objects.Object, error) {
	written, err := time.Parse(http.TimeFormat, modified)
	if tag == "" || err != nil {
		return objects.Object{}, &objects.Refusal{Status: http.StatusOK, Code: objects.NoTag, Text: "a blob has no entity tag or no time"}
	}
	if !strings.HasPrefix(tag, `"`) {
		tag = `"` + tag + `"` // lists leave the quotes out
	}
	o := objects.Object{Key: key, Version: objects.Version(tag), Size: size, Time: written}
	if sum, err := base64.StdEncoding.DecodeString(md5); err == nil && len(sum) == 16 {
		o.Sum = "md5:" + hex.EncodeToString(sum)
	}
	return o, nil
}

// Stat implements objects.Service.
func (b *blobs) Stat(ctx context.Context, key string) (objects.Object, error) {
	answer, err := b.request(ctx, http.MethodHead, key, nil, nil, nil, 0)
	if err != nil {
		return objects.Object{}, err
	}
	answer.Body.Close()
	h := answer.Header
	return object(key, h.Get("ETag"), h.Get("Last-Modified"), h.Get("Content-MD5"), answer.ContentLength)
}

// Read implements objects.Service.
func (b *blobs) Read(ctx context.Context, o objects.Object, offset, length int64) (io.ReadCloser, error) {
	header := http.Header{}
	if o.Version != objects.Any {
		header = only(o.Version)
	}
	header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	answer, err := b.request(ctx, http.MethodGet, o.Key, nil, header, nil, 0)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusPartialContent {
		answer.Body.Close()
		return nil, &objects.Refusal{Status: answer.StatusCode, Text: "the service does not read parts of a blob"}
	}
	return answer.Body, nil
}

// Write implements objects.Service.
func (b *blobs) Write(ctx context.Context, key string, old objects.Version, c objects.Content) (objects.Version, error) {
	header := only(old)
	header.Set("x-ms-blob-type", "BlockBlob")
	header.Set("x-ms-blob-content-type", c.Type)
	if c.Changes {
		header.Set("x-ms-blob-cache-control", "no-cache")
	}
	body := io.Reader(http.NoBody)
	if c.Size > 0 {
		body = io.NewSectionReader(c, 0, c.Size)
	}
	answer, err := b.request(ctx, http.MethodPut, key, nil, header, body, c.Size)
	if err != nil {
		return objects.Absent, err
	}
	answer.Body.Close()
	return objects.Version(answer.Header.Get("ETag")), nil
}

// listing is a page of a list.
type listing struct {
	Blobs struct {
		Blob []struct {
			Name       string
			Properties struct {
				Modified string `xml:"Last-Modified"`
				Tag      string `xml:"Etag"`
				Size     int64  `xml:"Content-Length"`
				MD5      string `xml:"Content-MD5"`
			}
		}
	}
	NextMarker string
}

// List implements objects.Service.
func (b *blobs) List(ctx context.Context, prefix string, flat bool, page string, most int) (found []objects.Object, next string, err error) {
	query := url.Values{"restype": {"container"}, "comp": {"list"}, "prefix": {prefix}, "maxresults": {strconv.Itoa(most)}}
	if page != "" {
		query.Set("marker", page)
	}
	if flat {
		query.Set("delimiter", "/")
	}
	answer, err := b.request(ctx, http.MethodGet, "", query, nil, nil, 0)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	var l listing
	if err := xml.NewDecoder(io.LimitReader(answer.Body, 64<<20)).Decode(&l); err != nil {
		return nil, "", err
	}
	for _, blob := range l.Blobs.Blob {
		p := blob.Properties
		o, err := object(blob.Name, p.Tag, p.Modified, p.MD5, p.Size)
		if err != nil {
			return nil, "", err
		}
		found = append(found, o)
	}
	return found, l.NextMarker, nil
}

// Remove implements objects.Service.
func (b *blobs) Remove(ctx context.Context, o objects.Object) error {
	header := http.Header{}
	if o.Version != objects.Any {
		header = only(o.Version)
	}
	answer, err := b.request(ctx, http.MethodDelete, o.Key, nil, header, nil, 0)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Parts implements objects.Service: one request takes 5,000 MiB.
func (b *blobs) Parts() *objects.Parts { return nil }

// Close implements objects.Service.
func (b *blobs) Close() { b.client.CloseIdleConnections() }
