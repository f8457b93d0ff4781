// Package objects defines the interface of a storage service for outputs and inputs: single requests to the objects of one bucket. A
// program outside of this module adds a service by latentbeam.Extra (examples/store).
package objects

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"
)

// Service makes single requests to one bucket, without retries. A missing object is fs.ErrNotExist, a condition that is not
// true ErrRefused, and an error answer of the service a *Refusal. Every other error is a network error.
type Service interface {
	// Stat describes an object.
	Stat(ctx context.Context, key string) (Object, error)
	// Read reads bytes of one version of an object. If the object has another version, the error is ErrRefused or
	// fs.ErrNotExist.
	Read(ctx context.Context, o Object, offset, length int64) (io.ReadCloser, error)
	// Write writes the content of key if the existing version is still old. Read and Write accept Any.
	Write(ctx context.Context, key string, old Version, content Content) (Version, error)
	// List lists one page with at most most objects: those whose keys start with prefix, sorted. flat excludes keys with a
	// slash after the prefix. next is the next page, "" after the last one.
	List(ctx context.Context, prefix string, flat bool, page string, most int) (objects []Object, next string, err error)
	// Remove removes a version of an object, or Any. A service without such a condition removes the object anyway.
	Remove(ctx context.Context, o Object) error
	// Parts says how large objects are sent; nil: Write accepts all sizes.
	Parts() *Parts
	// Close closes idle connections. The service may be used again.
	Close()
}

// Version identifies a content of a key: a generation or an entity tag.
type Version string

// Absent is the version of a key without an object. Any matches every version: such a request has no condition.
const (
	Absent Version = ""
	Any    Version = "*"
)

// Object is one version of an object.
type Object struct {
	Key     string
	Version Version
	Size    int64     // in bytes
	Time    time.Time // of the last write, in whole seconds, as in listings
	// Sum is a checksum of the content, "crc32c:", "md5:" or "sha256:" and its hex digits; "" if the service does not provide
	// one.
	Sum string
}

// Content is the argument of Write.
type Content struct {
	io.ReaderAt
	Size    int64  // in bytes
	Type    string // media type, such as "video/mp4"
	Changes bool   // browsers must revalidate it before they show it from their cache
}

// Parts makes the requests for multipart uploads, without retries like Service.
type Parts struct {
	Above int64 // objects larger than this are sent in parts
	Bytes int64 // size of a part, except the last
	Most  int64 // most parts of an object
	// Begin starts an upload. It is invisible until Finish.
	Begin func(ctx context.Context, key string, c Content) (upload string, err error)
	// Send sends part number n, counted from 1, and returns its entity tag. Sending a part again replaces it.
	Send func(ctx context.Context, key, upload string, n int, part *io.SectionReader) (tag string, err error)
	// Finish joins the parts to an object if the existing version is still old. An unknown upload, which was finished or
	// aborted before, is ErrRefused.
	Finish func(ctx context.Context, key, upload string, tags []string, old Version, c Content) (Version, error)
	// Drop aborts an upload.
	Drop func(ctx context.Context, key, upload string) error
	// Begun lists unfinished uploads below a prefix that were started before a time.
	Begun func(ctx context.Context, prefix string, before time.Time) ([]Upload, error)
}

// Upload identifies a multipart upload.
type Upload struct{ Key, ID string }

// ErrRefused says that a key does not have the version that a request requires.
var ErrRefused = errors.New("the object has another version")

// NoTag is the code of a Refusal for an object that the service describes without a version.
const NoTag = "NoEntityTag"

// Refusal is an error answer of a service.
type Refusal struct {
	Status int    // HTTP status
	Code   string // code of the service, such as "SlowDown"; may be empty
	Text   string // for people; may be empty
	Fix    string // advice for people; may be empty
}

// Error describes the answer.
func (f *Refusal) Error() string {
	text := "HTTP status " + strconv.Itoa(f.Status)
	for _, more := range []string{f.Code, f.Text} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}

// Scheme is a kind of address, such as az://container/prefix, and how the buckets behind it are opened.
type Scheme struct {
	Name string // the text in front of ://, lower-case letters and digits
	// Open returns the service of one bucket. It may be called several times for one bucket, and makes no request by itself.
	Open func(ctx context.Context, bucket string) (Service, error)
	// Secrets returns texts that no message may show, such as tokens; nil: there are none.
	Secrets func() []string
}
