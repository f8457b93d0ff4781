package bucket

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
)

// record is the content of a lock's object.
type record struct {
	store.Owner
	Token   string `json:"token"`             // identifies this acquisition of the lock
	Beat    int    `json:"beat"`              // counts heartbeats
	Process string `json:"process,omitempty"` // see the function process
	Free    bool   `json:"free,omitempty"`
}

// found is a record that was read from the bucket.
type found struct {
	record
	version objects.Version // Absent: the lock was never held
	echo    bool            // it is an earlier write of the same lease
}

func (f found) free() bool { return f.version == objects.Absent || f.Free }

// lockObject is the object of a lock in the bucket. Any process may read it; it is replaced only on condition of its version.
type lockObject struct {
	bucket *Bucket
	name   string
}

// watch returns when the lock is free or its holder is dead; otherwise it returns the *LockedError.
func (o lockObject) watch(ctx context.Context, there found) (found, error) {
	begun := o.bucket.clock.Now()
	for !there.free() && !ownerDied(there.record) {
		rest := leaseTime - o.bucket.clock.Now().Sub(begun)
		if rest <= 0 {
			return there, nil
		}
		if err := o.bucket.clock.Sleep(ctx, min(rest, lookTime)); err != nil {
			return there, o.bucket.failed("lock", o.name, err)
		}
		now, err := o.read(ctx)
		if err != nil {
			return there, o.bucket.failed("lock", o.name, err)
		}
		if now.version != there.version && !now.free() {
			return now, o.locked(now)
		}
		there = now
	}
	return there, nil
}

// locked returns the error for a held lock.
func (o lockObject) locked(f found) error {
	return fault.TryAgain(&store.LockedError{URL: o.bucket.url, Lock: o.name, Owner: f.Owner})
}

// read reads a lock's object. A missing object has the version Absent. If the object is replaced meanwhile, it is read again. Only
// a version that is gone again and again is a contradiction: many processes may write the object in turn.
func (o lockObject) read(ctx context.Context) (f found, err error) {
	var last objects.Version
	for patience := o.bucket.patience(); ; {
		if f, err = o.readOnce(ctx); !errors.Is(err, store.ErrChanged) {
			return f, err
		}
		if f.version != last {
			last = f.version
			patience.changed()
		}
		if err := patience.waitRetry(ctx, "read the lock", o.name, seenOtherVersion); err != nil {
			return found{}, err
		}
	}
}

// readOnce is a single attempt of read. If the object is replaced meanwhile, it returns store.ErrChanged and the version that is
// gone.
func (o lockObject) readOnce(ctx context.Context) (f found, err error) {
	r, err := o.bucket.Open(ctx, o.name)
	if errors.Is(err, fs.ErrNotExist) {
		return found{}, nil
	}
	if err != nil {
		return found{}, err
	}
	defer r.Close()
	text := make([]byte, min(r.Size(), maxRecord))
	f.version = r.(*reader).object.Version
	if _, err := r.ReadAt(text, 0); err != nil && len(text) > 0 {
		return f, err
	}
	f.record = parseRecord(text)
	return f, nil
}

// maxRecord limits the bytes that are read of a lock's object.
const maxRecord = 1 << 16

// parseRecord parses a lock's object. An invalid object has an unknown owner.
func parseRecord(text []byte) record {
	var r record
	if json.Unmarshal(text, &r) != nil {
		return record{}
	}
	return r
}

// swap writes a record if the lock's object still has version old, and returns what the bucket has then. It returns the
// service's error.
func (o lockObject) swap(ctx context.Context, old objects.Version, r record) (found, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return found{}, err
	}
	c := content(o.name, append(text, '\n'))
	c.Changes = true
	version, err := o.bucket.write(ctx, o.name, old, c)
	if !errors.Is(err, objects.ErrRefused) {
		return found{record: r, version: version}, err
	}
	there, readErr := o.read(ctx)
	switch {
	case readErr != nil:
		return found{}, readErr
	case there.Token == r.Token:
		there.echo = true
		return there, nil
	}
	return found{}, err
}
