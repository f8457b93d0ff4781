package bucket

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"latentbeam/internal/storage/store"
)

// Service makes single requests to one bucket. It tries nothing again. A missing object is fs.ErrNotExist, a
// condition that does not hold ErrRefused, and an answer of the service a *Failure. Every other error is one of
// the network.
type Service interface {
	// Stat describes an object.
	Stat(ctx context.Context, key string) (Object, error)
	// Read reads bytes of one version of an object. Another version is ErrRefused or fs.ErrNotExist.
	Read(ctx context.Context, o Object, offset, length int64) (io.ReadCloser, error)
	// Write gives key the content, if the version that is there is still old. Read and Write take Any.
	Write(ctx context.Context, key string, old Version, content Content) (Version, error)
	// List lists one page of at most most objects: those whose keys start with prefix, sorted. flat leaves out keys with a
	// slash behind the prefix. next is the next page, "" behind the last one.
	List(ctx context.Context, prefix string, flat bool, page string, most int) (objects []Object, next string, err error)
	// Remove removes a version of an object, or Any. A service that knows no such condition removes the object.
	Remove(ctx context.Context, o Object) error
	// Parts says how large objects are sent; nil: Write takes all of them.
	Parts() *Parts
	// Close gives back idle connections. The service may be used again.
	Close()
}

// Version is what a bucket calls a content of a key: a generation or an entity tag.
type Version string

// Absent is the version of a key that has no object. Any is every version: such a request has no condition.
const (
	Absent Version = ""
	Any    Version = "*"
)

// Object is one version of an object.
type Object struct {
	Key     string
	Version Version
	Size    int64     // in bytes
	Time    time.Time // of the last write; a whole second, for listings know no more
	// Sum is a checksum of the content, "crc32c:", "md5:" or "sha256:" and its hex digits; "" where the service tells none.
	Sum string
}

// info describes the object to users of the store.
func (o Object) info(name string) store.Info {
	return store.Info{Name: name, Size: o.Size, Mark: string(o.Version), Time: o.Time.Unix() * int64(time.Second)}
}

// Content is what Write writes.
type Content struct {
	io.ReaderAt
	Size    int64  // in bytes
	Type    string // as HTTP says it, such as "video/mp4"
	Changes bool   // a browser asks again before it shows it from its cache
}

// Parts is how a service takes an object in parts: single requests, like those of Service.
type Parts struct {
	Above int64 // sizes of which objects go in parts
	Bytes int64 // of a part, but for the last one
	Most  int64 // parts of an object
	// Begin begins an upload. Nobody sees it until Finish.
	Begin func(ctx context.Context, key string, c Content) (upload string, err error)
	// Send sends part number n, counted from 1, and returns its entity tag. A part that is sent again replaces itself.
	Send func(ctx context.Context, key, upload string, n int, part *io.SectionReader) (tag string, err error)
	// Finish makes the parts an object, if the version that is there is still old. An upload that is not known, because it
	// was finished before or given up, is ErrRefused.
	Finish func(ctx context.Context, key, upload string, tags []string, old Version, c Content) (Version, error)
	// Drop gives an upload up.
	Drop func(ctx context.Context, key, upload string) error
	// Begun lists uploads below a prefix that were begun before a time, and neither finished nor given up.
	Begun func(ctx context.Context, prefix string, before time.Time) ([]Upload, error)
}

// Upload is an upload in parts.
type Upload struct{ Key, ID string }

// ErrRefused says that a key does not have the version that a request named.
var ErrRefused = errors.New("the object is another one")

// NoTag is the code of a Refusal about an object that is described without a version.
const NoTag = "NoEntityTag"

// Refusal is an answer of a service that is no success.
type Refusal struct {
	Status int    // of HTTP
	Code   string // of the service, such as "SlowDown"; may be empty
	Text   string // for people; may be empty
	Fix    string // what a person can do; may be empty
}

// Error says what the service said.
func (f *Refusal) Error() string {
	return joined("HTTP status "+strconv.Itoa(f.Status), f.Code, f.Text)
}

// full reports whether the service has no room for this user. Room may come.
func (f *Refusal) full() bool {
	return f.Status == 507 || strings.Contains(f.Code, "Quota") || strings.Contains(f.Code, "StorageFull")
}

// denies reports whether the service knows who asks, and does not let him.
func (f *Refusal) denies() bool {
	switch f.Code {
	case "RequestTimeTooSkewed", "ExpiredToken", "TokenRefreshRequired", "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return false
	}
	return f.Status == 403
}

// passes reports whether the same request may succeed within seconds.
func (f *Refusal) passes() bool {
	switch f.Status {
	case 408, 409, 425, 429, 500, 502, 503, 504:
		return true
	}
	return f.Code == "RequestTimeout" // S3 answers it with 400
}
