package simulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"latentbeam/schemas/objects"
)

// world is what outlives processes: the bucket or the directory, and the dice.
type world struct {
	*directory // nil: the output is in a bucket
	seed       uint64
	mu         sync.Mutex
	objects    map[string]object
	version    int
	calls      map[string]int  // by what is called
	trouble    rate            // the part of calls that fail
	down       [2]time.Time    // from when to when every call fails
	stops      map[string]stop // of processes
	log        func(format string, args ...any)
}

type object struct {
	data    []byte
	version objects.Version
	time    time.Time
}

// rate is a part of one. What a killed process has still running reads it while it changes.
type rate struct{ bits atomic.Uint64 }

func (r *rate) get() float64  { return math.Float64frombits(r.bits.Load()) }
func (r *rate) set(f float64) { r.bits.Store(math.Float64bits(f)) }

// dice returns a number from 0 to 1 for the n-th call of something.
func (w *world) dice(what ...any) float64 {
	name := fmt.Sprint(what...)
	w.mu.Lock()
	w.calls[name]++
	n := w.calls[name]
	w.mu.Unlock()
	return w.roll(name, n)
}

// first reports whether something happens for the first time.
func (w *world) first(what ...any) bool {
	name := fmt.Sprint(what...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[name]++
	return w.calls[name] == 1
}

// roll is dice without memory.
func (w *world) roll(what ...any) float64 {
	h := fnv.New64a()
	fmt.Fprint(h, w.seed, what)
	x := h.Sum64()
	x ^= x >> 31
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return float64(x>>11) / (1 << 53)
}

// disk is the output as one process sees it.
type disk struct {
	*world
	name string
	dead chan struct{} // closed when the process has died: nothing that it calls happens any more
}

var errDead = errors.New("the process is dead")

func (d *disk) isDead() bool {
	select {
	case <-d.dead:
		return true
	default:
		return false
	}
}

// kindOf is a key without what differs by chance.
func kindOf(key string) string {
	if strings.HasSuffix(key, ".seg") {
		return "segment"
	}
	return key
}

// stop is a process that makes no call until a time, as after SIGSTOP. It begins with a heartbeat of its lock, which is done
// and not acknowledged.
type stop struct {
	lasts time.Duration
	until time.Time // zero: it has not begun
}

// wake waits until a process that was stopped goes on.
func (d *disk) wake(ctx context.Context) error {
	d.mu.Lock()
	rest := time.Until(d.stops[d.name].until)
	d.mu.Unlock()
	if rest <= 0 {
		return nil
	}
	return clock{d}.Sleep(ctx, rest)
}

// stopsAt reports whether the process stops in this call.
func (d *disk) stopsAt(op, key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stops[d.name]
	if s.lasts == 0 || !s.until.IsZero() || op != "write" || !strings.HasSuffix(key, "lock") {
		return false
	}
	s.until = time.Now().Add(s.lasts)
	d.stops[d.name] = s
	return true
}

// call makes one request: it takes a while, and may fail before it has an effect or after.
func (d *disk) call(ctx context.Context, op, key string, effect func() error) error {
	if err := d.wake(ctx); err != nil {
		return err
	}
	what := d.name + " " + op + " " + kindOf(key)
	took := time.Duration(1e6 + 4e7*d.dice("time", what))
	drawn := d.dice("fate", what)
	if drawn < d.trouble.get()/10 {
		took += 70 * time.Second // longer than a request may take
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return ctx.Err()
	case <-d.dead:
		if drawn > 0.5 { // the request was on its way
			d.locked(effect)
		}
		return errDead
	}
	if d.isDead() {
		return errDead
	}
	switch now := time.Now(); {
	case d.trouble.get() > 0 && now.After(d.down[0]) && now.Before(d.down[1]), drawn < d.trouble.get()/2:
		return &objects.Refusal{Status: 503, Code: "SlowDown"}
	case drawn < d.trouble.get() || d.stopsAt(op, key):
		err := d.locked(effect)
		d.log("%v %s: done, and not acknowledged (%v)", time.Now().Format(time.TimeOnly), what, err)
		return errors.New("connection reset by peer")
	}
	return d.locked(effect)
}

func (d *disk) locked(effect func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return effect()
}

func (d *disk) Stat(ctx context.Context, key string) (o objects.Object, err error) {
	err = d.call(ctx, "stat", key, func() error {
		there, ok := d.objects[key]
		if !ok {
			return fs.ErrNotExist
		}
		o = describe(key, there)
		return nil
	})
	return o, err
}

func describe(key string, o object) objects.Object {
	return objects.Object{Key: key, Version: o.version, Size: int64(len(o.data)), Time: o.time}
}

func (d *disk) Read(ctx context.Context, o objects.Object, offset, length int64) (r io.ReadCloser, err error) {
	err = d.call(ctx, "read", o.Key, func() error {
		there, ok := d.objects[o.Key]
		if !ok {
			return fs.ErrNotExist
		}
		if there.version != o.Version {
			return objects.ErrRefused
		}
		r = io.NopCloser(bytes.NewReader(there.data[offset : offset+length]))
		return nil
	})
	return r, err
}

func (d *disk) Write(ctx context.Context, key string, old objects.Version, c objects.Content) (v objects.Version, err error) {
	data := make([]byte, c.Size)
	if _, err := c.ReadAt(data, 0); err != nil && err != io.EOF {
		return "", err
	}
	err = d.call(ctx, "write", key, func() error {
		if d.objects[key].version != old {
			return objects.ErrRefused
		}
		d.version++
		v = objects.Version(fmt.Sprint(d.version))
		d.objects[key] = object{data, v, time.Now()}
		return nil
	})
	return v, err
}

func (d *disk) List(ctx context.Context, prefix string, flat bool, page string, _ int) (out []objects.Object, next string, err error) {
	err = d.call(ctx, "list", prefix, func() error {
		for key, o := range d.objects {
			if rest, ok := strings.CutPrefix(key, prefix); ok && !(flat && strings.Contains(rest, "/")) {
				out = append(out, describe(key, o))
			}
		}
		slices.SortFunc(out, func(a, b objects.Object) int { return strings.Compare(a.Key, b.Key) })
		return nil
	})
	return out, "", err
}

func (d *disk) Remove(ctx context.Context, o objects.Object) error {
	return d.call(ctx, "remove", o.Key, func() error {
		there, ok := d.objects[o.Key]
		switch {
		case !ok:
			return fs.ErrNotExist
		case o.Version != "" && there.version != o.Version:
			return objects.ErrRefused
		}
		delete(d.objects, o.Key)
		return nil
	})
}

func (d *disk) Close() {}

// Parts implements objects.Service: every object goes in one request.
func (d *disk) Parts() *objects.Parts { return nil }

// clock is that of the bubble. Pauses before another try are the same in every run of a seed.
type clock struct{ *disk }

func (clock) Now() time.Time { return time.Now() }

func (c clock) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.dead:
		return errDead
	}
}

func (c clock) Pause(ctx context.Context, _ time.Duration) error {
	return c.Sleep(ctx, time.Duration(2e8+1e9*c.dice("pause", c.name)))
}

func (c clock) Every(d time.Duration, f func()) (stop func()) {
	end := make(chan struct{})
	go func() {
		for {
			select {
			case <-end:
				return
			case <-c.dead:
				return
			case <-time.After(d):
				f()
			}
		}
	}()
	return sync.OnceFunc(func() { close(end) })
}
