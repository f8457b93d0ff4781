package store

import (
	"context"
	"io"
	"iter"
)

// Store is an output: a flat set of objects. Its methods are safe for concurrent use, and several stores, in
// several processes, may be open on one output.
//
// Names are checked by CheckName, before anything is written; a name that it refuses is an error of every method, and
// not fs.ErrNotExist. No name is also the
// directory of another one ("a" beside "a/b"): a store may refuse the second.
//
// Atomicity: under a name stands a whole object or none, at every moment and after every crash. Nobody sees a
// part of one, in List or Stat either.
//
// Durability: an object is safe from a power cut when Put or Replace returns nil, or when a List of a store that may
// write has shown it, whoever wrote it. Remove is not: the object may be back.
//
// Order: Open, Stat, Sizes and List see every Put, Replace and Remove that returned before they began, of any
// process.
//
// Errors: a missing object is fs.ErrNotExist. Other bytes under the name of a Put are a *ConflictError. A lock of
// somebody else is a *LockedError. A lost lock is ErrLost, a removed output ErrRemoved, a replaced object ErrChanged.
// Faults of the world that may pass (no room, no rights, no network) are fault.TryAgain, everything else is
// fault.Fatal. A store tries again by itself, within bounds, what usually passes within seconds. An ended ctx is the
// ctx's own error, and the call has changed nothing or all. Errors name the object and the store, and never a
// credential.
type Store interface {
	// URL says for people where the store is: the absolute path of a directory, or an address such as
	// gs://bucket/prefix.
	URL() string

	// Put publishes objects that nobody changes later. An object whose name holds equal bytes counts as
	// published. Other bytes give a *ConflictError (several are joined, see Conflicts), and the other objects are
	// published all the same. Any other error leaves each object either published or absent, and Put can be
	// called again. The objects of one Put come in no order.
	Put(ctx context.Context, objects ...Object) error

	// Replace gives name the content that write produces: readers see the old object or the new one. An error of
	// write leaves the old object as it was and is returned as it is. Of two that replace one object at the same
	// time one wins, and the other may get ErrChanged.
	Replace(ctx context.Context, name string, write func(io.Writer) error) error

	// Open opens an object for reading. ctx bounds Open alone; reads end with Close.
	Open(ctx context.Context, name string) (Reader, error)

	// Stat describes an object.
	Stat(ctx context.Context, name string) (Info, error)

	// Sizes returns what describes very many objects, faster than Stat does. Close it. What it tells may
	// be as old as the call of Sizes. It is for one goroutine.
	Sizes(ctx context.Context) Sizes

	// List yields the objects whose names start with prefix, sorted by the bytes of their names. The prefix is a
	// string ("tables/videos-" or "videos/"), no pattern. An object that comes or goes meanwhile may be yielded or
	// not; all others are. An error ends the list.
	List(ctx context.Context, prefix string, depth Depth) iter.Seq2[Info, error]

	// Remove removes an object. A missing one is fs.ErrNotExist.
	Remove(ctx context.Context, name string) error

	// Lock takes the lock called name without waiting, or answers the *LockedError of its holder. owner says what
	// this process is doing, for others to read. A store holds at most one lock at a time. A lock ends with
	// release, or some time after the death of its process, however it comes. Where a lock can be lost while its
	// process lives (a lease that could not be renewed), every writing method answers ErrLost until release is
	// called. The name of a lock is listed as an object while somebody holds it, and may be afterwards; Put and
	// Replace are not for such names.
	Lock(ctx context.Context, name, owner string) (release func(), err error)

	// Held answers the *LockedError of whoever holds the lock called name, nil where nobody does. It takes
	// nothing.
	Held(ctx context.Context, name string) error

	// CleanTemps removes what dead runs left unpublished, and returns how many pieces that were. It needs a held
	// lock and touches only what was written under the same lock name or under one of free, which the caller knows
	// to be free. So runs that share the output under other locks (shards of a job) are safe.
	CleanTemps(ctx context.Context, free ...string) (int, error)

	// Close releases the store. A lock is released by its own release; open readers stay valid.
	Close() error
}

// Object is a whole object to publish.
type Object struct {
	Name string
	Data []byte
}

// Info describes an object.
type Info struct {
	Name string
	Size int64 // in bytes
	// Mark is another one when the content may be another one: the time of the last write, a generation, an entity tag.
	Mark string
	Time int64 // of the last write, in nanoseconds since 1970
}

// Reader reads an object as it was when it was opened. ReadAt is safe for concurrent use. Where the object has
// been replaced or removed since, a store that has not kept the old bytes answers ErrChanged, never other bytes.
type Reader interface {
	io.ReaderAt
	io.Closer
	Size() int64 // in bytes
}

// Sizes describes objects.
type Sizes interface {
	// Of describes an object; a missing one is fs.ErrNotExist.
	Of(ctx context.Context, name string) (Info, error)
	// Close gives back what is held.
	Close()
}

// Depth says how far List goes.
type Depth int

const (
	// Flat leaves out names that have a slash behind the prefix.
	Flat Depth = iota
	// Deep takes all.
	Deep
)
