package bucket

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
	"latentbeam/schemas/objects"
)

// Times of a lease. A process that sees no heartbeat for leaseTime on its own clock takes the lease over; three heartbeats are
// missing by then. The holder checks the lease in the bucket before it writes if its own last heartbeat is older than
// doubtTime.
const (
	leaseTime = 60 * time.Second
	beatTime  = 15 * time.Second
	doubtTime = 45 * time.Second
	lookTime  = 5 * time.Second // interval for checking another process's lease
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

// lease is a lock of this store.
type lease struct {
	bucket *Bucket
	name   string

	token   string
	mu      chan bool // full while the record is written: works as a mutex across network waits
	held    bool      // the lock was acquired
	found             // as last written
	renewed time.Time // start of the last acknowledged write
	lost    bool
	stop    func() // stops the heartbeat
}

// Lock implements store.Store. If another process holds the lock, it waits for a heartbeat: at most leaseTime.
func (b *Bucket) Lock(ctx context.Context, name, owner string) (release func(), err error) {
	if err := b.checkCall(ctx, "lock", name); err != nil {
		return nil, err
	}
	l := &lease{bucket: b, name: name, token: rand.Text(), mu: make(chan bool, 1)}
	l.record = record{Owner: store.NewOwner(owner), Token: l.token, Process: process()}
	b.mu.Lock()
	if b.lease != nil {
		b.mu.Unlock()
		return nil, fmt.Errorf("lock %s: this run already holds a lock on %s", name, b.url)
	}
	b.lease = l
	b.mu.Unlock()
	if err := l.acquire(ctx); err != nil {
		l.discard()
		return nil, err
	}
	return sync.OnceFunc(l.release), nil
}

// acquire acquires the lease for this process.
func (l *lease) acquire(ctx context.Context) error {
	for patience := l.bucket.patience(); ; {
		there, err := l.bucket.read(ctx, l.name)
		if err != nil {
			return l.bucket.failed("lock", l.name, err)
		}
		if there, err = l.bucket.watch(ctx, l.name, there); err != nil {
			return err
		}
		err = l.claim(ctx, there.version)
		if !errors.Is(err, objects.ErrRefused) {
			return l.bucket.failed("lock", l.name, err)
		}
		there, err = l.bucket.read(ctx, l.name) // another process was faster
		if err != nil {
			return l.bucket.failed("lock", l.name, err)
		}
		if !there.free() {
			return l.bucket.locked(l.name, there)
		}
		seen := seenRefusedOwn
		if there.version == objects.Absent {
			seen = seenRefusedAbsent
		}
		if err := patience.waitRetry(ctx, "lock", l.name, seen); err != nil {
			return err
		}
	}
}

// claim writes the first record over the given version. The heartbeat waits for it.
func (l *lease) claim(ctx context.Context, old objects.Version) error {
	l.mu <- true
	defer func() { <-l.mu }()
	if l.stop == nil {
		l.stop = l.bucket.clock.Every(beatTime, l.beat)
	}
	l.version = old
	err := l.write(ctx, l.record)
	if err == nil {
		err = l.tryCondition(ctx)
	}
	l.held = err == nil
	return err
}

// tryTime limits tryCondition, because the lease must not expire meanwhile.
const tryTime = 10 * time.Second

// tryCondition makes a request that the service must refuse: to create the lock as a new object, although it exists. A service
// that allows it would give the lock to every process; an earlier check on another day or host may not have noticed. A request
// without an answer proves nothing. mu is held.
func (l *lease) tryCondition(ctx context.Context) error {
	text, err := json.Marshal(l.record)
	if err != nil {
		return err
	}
	c := content(l.name, append(text, '\n'))
	c.Changes = true
	short, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	version, err := l.bucket.service.Write(short, l.bucket.prefix+l.name, objects.Absent, c)
	if err != nil {
		return nil
	}
	l.version = version
	_ = l.write(ctx, record{Owner: l.Owner, Token: l.Token, Beat: l.Beat + 1, Free: true})
	return fault.Usage(&failure{text: fmt.Sprintf("lock %s/%s: the service takes a new object over one that is there (it ignores "+
		"If-None-Match), so two runs would hold one lock; `latentbeam doctor %[1]s` says more; take another store (docs/buckets.md), or "+
		"set output.unsafe_store: true where one run alone writes there", l.bucket.url, l.name)})
}

// write writes a new record to the lease's object. mu is held. It returns the service's error. If the bucket already has a
// record of this lease, an earlier write was executed without an acknowledgement, perhaps long ago. Other processes measure
// time from that record, so it is not a new heartbeat: write writes another record over it.
func (l *lease) write(ctx context.Context, r record) error {
	for patience := l.bucket.patience(); ; {
		begun := l.bucket.clock.Now()
		there, err := l.bucket.swap(ctx, l.name, l.version, r)
		switch {
		case err != nil:
			return err
		case there.echo:
			l.version, r.Beat = there.version, there.Beat+1
			if err := patience.waitRetry(ctx, "lock", l.name, seenRefusedOwn); err != nil {
				return err
			}
		default:
			l.record, l.version, l.renewed = r, there.version, begun
			return nil
		}
	}
}

// beat writes a heartbeat.
func (l *lease) beat() {
	l.mu <- true
	defer func() { <-l.mu }()
	ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	_ = l.renew(ctx) // a failed one is repeated at the next heartbeat, and before the next write
}

// renew writes the next heartbeat. mu is held.
func (l *lease) renew(ctx context.Context) error {
	if !l.held || l.lost {
		return nil
	}
	r := l.record
	r.Beat++
	err := l.write(ctx, r)
	if errors.Is(err, objects.ErrRefused) || errors.Is(err, fs.ErrNotExist) {
		l.lost = true
		return nil
	}
	return err
}

// mine returns ErrLost if another process may hold the lock of this store.
func (b *Bucket) mine(ctx context.Context) error {
	b.mu.Lock()
	l := b.lease
	b.mu.Unlock()
	if l == nil {
		return nil
	}
	l.mu <- true
	defer func() { <-l.mu }()
	if l.held && !l.lost && b.since(l.renewed) > doubtTime {
		if err := l.renew(ctx); err != nil {
			return b.failed("renew the lock", l.name, err)
		}
	}
	if l.held && l.lost {
		return fault.TryAgain(fmt.Errorf("write to %s: %w: this process was silent for too long", b.url, store.ErrLost))
	}
	return nil
}

// Mine returns store.ErrLost if another process may hold the lock of this store.
func (b *Bucket) Mine(ctx context.Context) error { return b.mine(ctx) }

// since returns the time since t, by the clock that shows more: one clock stops while a machine sleeps.
func (b *Bucket) since(t time.Time) time.Duration {
	now := b.clock.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// release releases the lock. If the bucket cannot be reached, the lease expires.
func (l *lease) release() {
	l.mu <- true
	if !l.lost {
		ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
		_ = l.write(ctx, record{Owner: l.Owner, Token: l.Token, Beat: l.Beat + 1, Free: true})
		cancel()
	}
	l.held = false
	<-l.mu
	l.discard()
}

// discard removes the lease from memory.
func (l *lease) discard() {
	if l.stop != nil {
		l.stop()
	}
	l.bucket.mu.Lock()
	defer l.bucket.mu.Unlock()
	l.bucket.lease = nil
}

// Held implements store.Store. If another process holds the lock, it waits for a heartbeat: at most leaseTime.
func (b *Bucket) Held(ctx context.Context, name string) error {
	if err := b.checkCall(ctx, "look at the lock", name); err != nil {
		return err
	}
	b.mu.Lock()
	l := b.lease
	b.mu.Unlock()
	there, err := b.read(ctx, name)
	if err != nil {
		return b.failed("look at the lock", name, err)
	}
	if l != nil && l.name == name && there.Token == l.token {
		return b.locked(name, there)
	}
	_, err = b.watch(ctx, name, there)
	return err
}

// watch returns when the lock is free or its holder is dead; otherwise it returns the *LockedError.
func (b *Bucket) watch(ctx context.Context, name string, there found) (found, error) {
	begun := b.clock.Now()
	for !there.free() && !ownerDied(there.record) {
		rest := leaseTime - b.clock.Now().Sub(begun)
		if rest <= 0 {
			return there, nil
		}
		if err := b.clock.Sleep(ctx, min(rest, lookTime)); err != nil {
			return there, b.failed("lock", name, err)
		}
		now, err := b.read(ctx, name)
		if err != nil {
			return there, b.failed("lock", name, err)
		}
		if now.version != there.version && !now.free() {
			return now, b.locked(name, now)
		}
		there = now
	}
	return there, nil
}

// locked returns the error for a held lock.
func (b *Bucket) locked(name string, f found) error {
	return fault.TryAgain(&store.LockedError{URL: b.url, Lock: name, Owner: f.Owner})
}

// read reads a lock's object. A missing object has the version Absent. If the object is replaced meanwhile, it is read again.
func (b *Bucket) read(ctx context.Context, name string) (f found, err error) {
	for patience := b.patience(); ; {
		if f, err = b.readOnce(ctx, name); !errors.Is(err, store.ErrChanged) {
			return f, err
		}
		if err := patience.waitRetry(ctx, "read the lock", name, seenOtherVersion); err != nil {
			return found{}, err
		}
	}
}

// readOnce is a single attempt of read. It returns store.ErrChanged if the object is replaced meanwhile.
func (b *Bucket) readOnce(ctx context.Context, name string) (f found, err error) {
	r, err := b.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return found{}, nil
	}
	if err != nil {
		return found{}, err
	}
	defer r.Close()
	text := make([]byte, min(r.Size(), maxRecord))
	if _, err := r.ReadAt(text, 0); err != nil && len(text) > 0 {
		return found{}, err
	}
	f.version, f.record = r.(*reader).object.Version, parseRecord(text)
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
func (b *Bucket) swap(ctx context.Context, name string, old objects.Version, r record) (found, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return found{}, err
	}
	c := content(name, append(text, '\n'))
	c.Changes = true
	version, err := b.write(ctx, name, old, c)
	if !errors.Is(err, objects.ErrRefused) {
		return found{record: r, version: version}, err
	}
	there, readErr := b.read(ctx, name)
	switch {
	case readErr != nil:
		return found{}, readErr
	case there.Token == r.Token:
		there.echo = true
		return there, nil
	}
	return found{}, err
}

// CleanTemps implements store.Store. A bucket shows only complete objects. So only unfinished multipart uploads can be left;
// they cost money. But a paused process could still complete one. So CleanTemps first takes over the locks of dead processes.
func (b *Bucket) CleanTemps(ctx context.Context, free ...string) (int, error) {
	if err := b.checkCall(ctx, "clean temporary files", free...); err != nil {
		return 0, err
	}
	b.mu.Lock()
	l := b.lease
	b.mu.Unlock()
	if l == nil {
		return 0, errors.New("clean temporary files: the output is not locked by this run")
	}
	if err := b.mine(ctx); err != nil {
		return 0, err
	}
	for _, name := range free {
		if name == l.name {
			continue
		}
		there, err := b.read(ctx, name)
		if err == nil && !there.free() {
			_, err = b.swap(ctx, name, there.version, record{Owner: there.Owner, Token: l.Token, Free: true})
		}
		if err != nil && !errors.Is(err, objects.ErrRefused) {
			return 0, b.failed("clean", name, err)
		}
	}
	n, err := b.cleanUploads(ctx)
	return n, b.failed("clean", "", err)
}
