package bucket

import (
	"context"
	"errors"
	"io"
	"time"

	"latentbeam/internal/store"
)

// Service makes single requests to one bucket. It tries nothing again. A missing object is fs.ErrNotExist, a
// condition that does not hold ErrRefused, and an answer of the service a *Failure. Every other error is one of
// the network.
type Service interface {
	// Stat describes an object.
	Stat(ctx context.Context, key string) (Object, error)
	// Read reads bytes of one version of an object. Another version is ErrRefused or fs.ErrNotExist.
	Read(ctx context.Context, o Object, offset, length int64) (io.ReadCloser, error)
	// Write gives key the content, if the version that is there is still old.
	Write(ctx context.Context, key string, old Version, content Content) (Version, error)
	// List lists one page: the objects whose keys start with prefix, sorted. flat leaves out keys with a slash
	// behind the prefix. next is the next page, "" behind the last one.
	List(ctx context.Context, prefix string, flat bool, page string) (objects []Object, next string, err error)
	// Remove removes a version of an object. A service that knows no such condition removes the object.
	Remove(ctx context.Context, o Object) error
	// Close gives back idle connections. The service may be used again.
	Close()
}

// Version is what a bucket calls a content of a key: a generation or an entity tag.
type Version string

// Absent is the version of a key that has no object.
const Absent Version = ""

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

// ErrRefused says that a key does not have the version that a request named.
var ErrRefused = errors.New("the object is another one")

// Failure is an answer of a service that is no success.
type Failure struct {
	Status int    // of HTTP
	Code   string // of the service, such as "SlowDown"; may be empty
	Text   string // for people; may be empty
}

// Error says what the service said.
func (f *Failure) Error() string { return joined("HTTP status "+itoa(f.Status), f.Code, f.Text) }

// passes reports whether the same request may succeed within seconds.
func (f *Failure) passes() bool {
	switch f.Status {
	case 408, 409, 425, 429, 500, 502, 503, 504:
		return true
	}
	return f.Code == "RequestTimeout" // S3 answers it with 400
}
