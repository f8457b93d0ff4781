package store

import (
	"context"
	"io"
	"iter"
)

// Store is an output: a flat set of objects. Its methods are safe for concurrent use. Several stores, in several processes, may
// be open on one output.
//
// Names are checked by CheckName before anything is written. An invalid name is an error of every method, and not
// fs.ErrNotExist. A name must not also be the directory of another name ("a" beside "a/b"): a store may refuse the second one.
//
// Atomicity: under a name is a complete object or none, at every moment and after every crash. Part of an object is never
// visible, also not in List or Stat.
//
// Durability: an object survives a power cut when Put or Replace has returned nil, or when a List of a store that may write has
// shown it, whoever wrote it. Remove is not durable: the object may be back.
//
// Order: Open, Stat, Sizes and List see every Put, Replace and Remove, of any process, that returned before they were called.
//
// Errors: a missing object is fs.ErrNotExist. Different bytes under the name of a Put are a *ConflictError. A lock of another
// process is a *LockedError. A lost lock is ErrLost, a removed output ErrRemoved, a replaced object ErrChanged. Temporary
// problems (no space, no rights, no network) are fault.TryAgain, everything else is fault.Fatal. A store itself retries, within
// limits, problems that usually pass within seconds. If ctx ends, its own error is returned, and the call has changed nothing
// or everything. Errors name the object and the store, and never contain a credential.
type Store interface {
	// URL returns the location of the store for people: the absolute path of a directory, or an address such as
	// gs://bucket/prefix.
	URL() string

	// Put publishes objects that are never changed later. An object whose name has equal bytes counts as published. Different
	// bytes give a *ConflictError (several are joined, see Conflicts), and the other objects are still published. After any
	// other error each object is either published or absent, and Put can be called again. The objects of one Put have no order.
	Put(ctx context.Context, objects ...Object) error

	// Replace replaces the content of name by what write produces: readers see the old object or the new one. If write returns
	// an error, the old object stays and the error is returned unchanged. If two calls replace one object at the same time, one
	// wins, and the other may get ErrChanged.
	Replace(ctx context.Context, name string, write func(io.Writer) error) error

	// Open opens an object for reading. ctx limits only Open; reads end with Close.
	Open(ctx context.Context, name string) (Reader, error)

	// Stat describes an object.
	Stat(ctx context.Context, name string) (Info, error)

	// Sizes returns a Sizes that describes many objects faster than Stat. The caller must close it. Its results may be as old
	// as the call of Sizes. It is not safe for concurrent use.
	Sizes(ctx context.Context) Sizes

	// List yields the objects whose names start with prefix, sorted by the bytes of their names. prefix is a string
	// ("tables/videos-" or "videos/"), not a pattern. An object that is created or removed meanwhile may be missing; all others
	// are listed. An error ends the list.
	List(ctx context.Context, prefix string, depth Depth) iter.Seq2[Info, error]

	// Remove removes an object. A missing one is fs.ErrNotExist.
	Remove(ctx context.Context, name string) error

	// Lock acquires the lock with this name without waiting, or returns the *LockedError of its owner. owner is a text for
	// people about what this process is doing. A store holds at most one lock at a time. A lock ends with release, or some time
	// after its process died for any reason. If a lock can be lost while its process lives (a lease that could not be renewed),
	// every writing method returns ErrLost until release is called. The name of a lock is listed as an object while it is held,
	// and may be listed afterwards. Put and Replace must not be used for such names.
	Lock(ctx context.Context, name, owner string) (release func(), err error)

	// Held returns the *LockedError of the process that holds the lock with this name, nil if no process does. It does not
	// acquire the lock.
	Held(ctx context.Context, name string) error

	// CleanTemps removes unpublished data of dead runs, and returns the number of removed pieces. The store must hold a lock.
	// It removes only what was written under the same lock name or under a name in free, which the caller knows to be free. So
	// runs that share the output with other locks (shards of a job) are safe.
	CleanTemps(ctx context.Context, free ...string) (int, error)

	// Close releases the store. A lock is released only by its own release; open readers stay valid.
	Close() error
}

// Object is a complete object to publish.
type Object struct {
	Name string
	Data []byte
}

// Info describes an object.
type Info struct {
	Name string
	Size int64 // in bytes
	// Mark changes when the content may have changed: the time of the last write, a generation, or an entity tag.
	Mark string
	Time int64 // of the last write, in nanoseconds since 1970
}

// Reader reads an object as it was when it was opened. ReadAt is safe for concurrent use. If the object was replaced or removed
// since, a store that does not have the old bytes returns ErrChanged, never other bytes.
type Reader interface {
	io.ReaderAt
	io.Closer
	Size() int64 // in bytes
}

// Sizes describes objects.
type Sizes interface {
	// Of describes an object; a missing one is fs.ErrNotExist.
	Of(ctx context.Context, name string) (Info, error)
	// Close releases resources.
	Close()
}

// Depth says which names List yields.
type Depth int

const (
	// Flat excludes names with a slash after the prefix.
	Flat Depth = iota
	// Deep includes all names.
	Deep
)
