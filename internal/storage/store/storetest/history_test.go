package storetest

import (
	"context"
	"io/fs"
	"sync"
	"sync/atomic"
	"testing"

	"latentbeam/internal/storage/store"
)

func TestHistories(t *testing.T) { Histories(t, NewMemory().Output(), 20, " in memory") }

// historyFlaws are stores that answer each call well and have no order that explains all answers.
var historyFlaws = []flaw{
	{"put looks before it writes", "", looksFirst},
	{"put replaces", "", func(b *bent) {
		b.put = func(_ context.Context, objects []store.Object) error {
			for _, o := range objects {
				b.set(o.Name, o.Data)
			}
			return nil
		}
	}},
	{"a read may be old", "", func(b *bent) {
		var mu sync.Mutex
		seen := map[string]bool{}
		b.open = func(ctx context.Context, name string) (store.Reader, error) {
			mu.Lock()
			defer mu.Unlock()
			r, err := b.Handle.Open(ctx, name)
			if err == nil && !seen[name] { // this store has remembered that nothing is there
				seen[name] = true
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			return r, err
		}
	}},
	{"a lock excludes nobody", "", func(b *bent) {
		b.lock = func(context.Context, string, string) (func(), error) { return func() {}, nil }
	}},
	{"each third lock is given to two", "", func(b *bent) {
		b.lock = func(ctx context.Context, name, owner string) (func(), error) {
			release, err := b.Handle.Lock(ctx, name, owner)
			if err != nil && refusals.Add(1)%3 == 0 {
				return func() {}, nil
			}
			return release, err
		}
	}},
	{"a lock is free as soon as somebody asks again", "", func(b *bent) {
		b.lock = func(ctx context.Context, name, owner string) (func(), error) {
			release, err := b.Handle.Lock(ctx, name, owner)
			if err != nil {
				b.memory.mu.Lock()
				b.memory.leases[name].over = true
				b.memory.mu.Unlock()
			}
			return release, err
		}
	}},
}

// refusals counts those of a flaw.
var refusals atomic.Int64

// TestHistoriesFindFlaws: Porcupine finds each planted flaw within a few histories.
func TestHistoriesFindFlaws(t *testing.T) {
	const most = 40
	for _, f := range historyFlaws {
		found := 0
		for seed := range most {
			law := Law{"a history", func(e *Env) error {
				h, _ := e.history(uint64(seed)) // who lost its lock may say so
				return h.check(false)
			}}
			if err := law.Try(t, f.output()); err != nil {
				t.Logf("%s: history %d: %v", f.name, seed, err)
				found = seed + 1
				break
			}
		}
		if found == 0 {
			t.Errorf("%s: %d histories show nothing", f.name, most)
		}
	}
}
