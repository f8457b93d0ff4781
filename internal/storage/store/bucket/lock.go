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

// lease is a lock of this store.
type lease struct {
	object  lockObject
	token   string
	mu      chan bool // full while the record is written: works as a mutex across network waits
	held    bool      // the lock was acquired
	found             // the lock as this process last wrote it
	renewed time.Time // start of the last acknowledged write
	lost    bool
	stop    func() // stops the heartbeat
}

// Lock implements store.Store. If another process holds the lock, Lock waits for its next heartbeat, at most leaseTime. If it comes,
// Lock returns an error; else Lock takes the lease over.
func (b *Bucket) Lock(ctx context.Context, name, owner string) (release func(), err error) {
	if err := b.checkCall(ctx, "lock", name); err != nil {
		return nil, err
	}
	l := &lease{object: lockObject{b, name}, token: rand.Text(), mu: make(chan bool, 1)}
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
	for patience := l.object.bucket.patience(); ; {
		there, err := l.object.read(ctx)
		if err != nil {
			return l.object.bucket.failed("lock", l.object.name, err)
		}
		if there, err = l.object.watch(ctx, there); err != nil {
			return err
		}
		err = l.claim(ctx, there.version)
		if !errors.Is(err, objects.ErrRefused) {
			return l.object.bucket.failed("lock", l.object.name, err)
		}
		there, err = l.object.read(ctx) // another process was faster
		if err != nil {
			return l.object.bucket.failed("lock", l.object.name, err)
		}
		if !there.free() {
			return l.object.locked(there)
		}
		seen := seenRefusedOwn
		if there.version == objects.Absent {
			seen = seenRefusedAbsent
		}
		if err := patience.waitRetry(ctx, "lock", l.object.name, seen); err != nil {
			return err
		}
	}
}

// claim starts the heartbeat and writes the first record over the version old. It holds mu, so a heartbeat waits for that record.
func (l *lease) claim(ctx context.Context, old objects.Version) error {
	l.mu <- true
	defer func() { <-l.mu }()
	if l.stop == nil {
		l.stop = l.object.bucket.clock.Every(beatTime, l.beat)
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
	c := content(l.object.name, append(text, '\n'))
	c.Changes = true
	short, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	version, err := l.object.bucket.service.Write(short, l.object.bucket.prefix+l.object.name, objects.Absent, c)
	if err != nil {
		return nil
	}
	l.version = version
	_ = l.write(ctx, record{Owner: l.Owner, Token: l.Token, Beat: l.Beat + 1, Free: true})
	return fault.Usage(&failure{text: fmt.Sprintf("lock %s/%s: the service takes a new object over one that is there (it ignores "+
		"If-None-Match), so two runs would hold one lock; `latentbeam doctor %[1]s` says more; take another store (docs/buckets.md), or "+
		"set output.unsafe_store: true where one run alone writes there", l.object.bucket.url, l.object.name)})
}

// write writes a new record to the lease's object. mu is held. It returns the service's error. If the bucket already has a
// record of this lease, an earlier write was executed without an acknowledgement, perhaps long ago. Other processes measure
// time from that record, so it is not a new heartbeat: write writes another record over it.
func (l *lease) write(ctx context.Context, r record) error {
	for patience := l.object.bucket.patience(); ; {
		begun := l.object.bucket.clock.Now()
		there, err := l.object.swap(ctx, l.version, r)
		switch {
		case err != nil:
			return err
		case there.echo:
			l.version, r.Beat = there.version, there.Beat+1
			if err := patience.waitRetry(ctx, "lock", l.object.name, seenRefusedOwn); err != nil {
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
	if l.held && !l.lost && since(l.renewed, b.clock.Now()) > doubtTime {
		if err := l.renew(ctx); err != nil {
			return b.failed("renew the lock", l.object.name, err)
		}
	}
	if l.held && l.lost {
		return fault.TryAgain(fmt.Errorf("write to %s: %w: this process was silent for too long", b.url, store.ErrLost))
	}
	return nil
}

// Mine returns store.ErrLost if another process may hold the lock of this store.
func (b *Bucket) Mine(ctx context.Context) error { return b.mine(ctx) }

// since returns the time between t and now, by the monotonic clock or by the wall clock: the longer one, because the monotonic
// clock stops while a machine sleeps.
func since(t, now time.Time) time.Duration {
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
	l.object.bucket.mu.Lock()
	defer l.object.bucket.mu.Unlock()
	l.object.bucket.lease = nil
}

// Held implements store.Store. If another process seems to hold the lock, Held waits for its next heartbeat, at most leaseTime.
func (b *Bucket) Held(ctx context.Context, name string) error {
	if err := b.checkCall(ctx, "look at the lock", name); err != nil {
		return err
	}
	b.mu.Lock()
	l := b.lease
	b.mu.Unlock()
	object := lockObject{b, name}
	there, err := object.read(ctx)
	if err != nil {
		return b.failed("look at the lock", name, err)
	}
	if l != nil && l.object.name == name && there.Token == l.token {
		return object.locked(there)
	}
	_, err = object.watch(ctx, there)
	return err
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
		if name == l.object.name {
			continue
		}
		object := lockObject{b, name}
		there, err := object.read(ctx)
		if err == nil && !there.free() {
			_, err = object.swap(ctx, there.version, record{Owner: there.Owner, Token: l.Token, Free: true})
		}
		if err != nil && !errors.Is(err, objects.ErrRefused) {
			return 0, b.failed("clean", name, err)
		}
	}
	n, err := multipart{b.service.Parts(), b}.clean(ctx)
	return n, b.failed("clean", "", err)
}
