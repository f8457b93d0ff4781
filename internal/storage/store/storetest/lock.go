package storetest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// lock acquires a free lock.
func (e *Env) lock(s store.Store, name, owner string) (release func()) {
	release, err := s.Lock(e.ctx, name, owner)
	e.must(err)
	return release
}

// refuses returns an error unless Lock and Held return the lock's owner.
func (e *Env) refuses(s store.Store, name, owner string) error {
	_, lockErr := s.Lock(e.ctx, name, "another")
	for call, err := range map[string]error{"Lock": lockErr, "Held": s.Held(e.ctx, name)} {
		var locked *store.LockedError
		if !errors.As(err, &locked) || locked.Owner.Name != owner {
			return fmt.Errorf("%s of %s, which %q holds: %v", call, name, owner, err)
		}
	}
	return nil
}

func lockExcludes(e *Env) error {
	one, two, third := e.open(), e.open(), e.open()
	release := e.lock(one, ".lock", "one")
	e.must(e.refuses(two, ".lock", "one"))
	if _, err := one.Lock(e.ctx, ".other", "one"); err == nil {
		return errors.New("one store took two locks")
	}
	other := e.lock(two, "locks/other", "two") // another name is another lock
	e.must(e.refuses(third, "locks/other", "two"))
	other()
	release()
	again := e.lock(two, ".lock", "two")
	release() // has no effect any more
	e.must(e.refuses(one, ".lock", "two"))
	again()
	for range 5 {
		var taken atomic.Int32
		var wg sync.WaitGroup
		start, errs, ends := make(chan bool), make([]error, 6), make([]func(), 6)
		for i := range errs {
			s := e.open()
			wg.Go(func() {
				<-start
				end, err := s.Lock(e.ctx, ".race", "racer")
				var locked *store.LockedError
				switch {
				case err == nil:
					taken.Add(1)
					ends[i] = end
				case !errors.As(err, &locked):
					errs[i] = err
				}
			})
		}
		close(start)
		wg.Wait()
		if n := taken.Load(); n != 1 {
			return fmt.Errorf("%d of 6 stores took one lock: %v", n, errors.Join(errs...))
		}
		e.must(errors.Join(errs...))
		ends[slices.IndexFunc(ends, func(end func()) bool { return end != nil })]()
	}
	return nil
}

func lockOwner(e *Env) error {
	one, two := e.open(), e.open()
	defer e.lock(one, ".lock", "run a.yaml")()
	_, err := two.Lock(e.ctx, ".lock", "run b.yaml")
	var locked *store.LockedError
	if !errors.As(err, &locked) || fault.ExitCode(err) != fault.ExitTryAgain {
		return fmt.Errorf("a lock of another: %v", err)
	}
	o, host := locked.Owner, store.NewOwner("").Host
	if o.Name != "run a.yaml" || o.PID != os.Getpid() || o.Host != host || time.Since(o.Since).Abs() > time.Hour ||
		locked.URL != one.URL() || locked.Lock != ".lock" {
		return fmt.Errorf("the holder is said to be %+v", locked)
	}
	for _, part := range []string{"in use by pid", host, "run a.yaml", one.URL(), ".lock"} {
		if !strings.Contains(err.Error(), part) {
			return fmt.Errorf("the message lacks %q: %v", part, err)
		}
	}
	names, err := store.Names(e.ctx, two, "", store.Flat)
	if err != nil || !slices.Contains(names, ".lock") {
		return fmt.Errorf("the lock is not listed: %q, %v", names, err)
	}
	return nil
}

func heldTakesNothing(e *Env) error {
	one, two := e.open(), e.open()
	for range 2 {
		e.must(one.Held(e.ctx, ".lock"))
		e.must(two.Held(e.ctx, ".lock"))
	}
	if names, err := store.Names(e.ctx, one, "", store.Deep); err != nil || len(names) > 0 {
		return fmt.Errorf("looking has made %q, %v", names, err)
	}
	release := e.lock(one, ".lock", "one")
	for range 2 {
		e.must(e.refuses(two, ".lock", "one"))
	}
	release()
	e.must(two.Held(e.ctx, ".lock"))
	e.lock(two, ".lock", "two")()
	return nil
}

func lockDies(e *Env) error {
	if e.Die == nil {
		return nil
	}
	dead, heir, third := e.open(), e.open(), e.open()
	e.lock(dead, ".lock", "the dead")
	e.must(e.refuses(heir, ".lock", "the dead"))
	e.Die(dead)
	e.must(heir.Held(e.ctx, ".lock"))
	release := e.lock(heir, ".lock", "the heir")
	e.must(e.refuses(third, ".lock", "the heir"))
	release()
	e.lock(third, ".lock", "the third")()
	return nil
}

// lockLost: a process that was paused too long continues while another one holds its lock.
func lockLost(e *Env) error {
	if e.Die == nil || !e.Leases {
		return nil
	}
	paused, heir, third := e.open(), e.open(), e.open()
	e.put(paused, "a", "old", "b", "old")
	release := e.lock(paused, ".lock", "the paused")
	finish := e.hang(paused, "c", "content")
	e.Die(paused)
	own := e.lock(heir, ".lock", "the heir")
	_, cleanErr := paused.CleanTemps(e.ctx)
	for call, err := range map[string]error{
		"Put": paused.Put(e.ctx, objects("new", "x")...), "Replace": paused.Replace(e.ctx, "a", text("new")),
		"Remove": paused.Remove(e.ctx, "b"), "CleanTemps": cleanErr, "Replace, begun before": finish(),
	} {
		if !errors.Is(err, store.ErrLost) {
			return fmt.Errorf("%s without the lock: %v", call, err)
		}
	}
	e.must(e.holds(paused, "a", "old", "b", "old", "c", "", "new", ""))
	release()
	e.must(e.refuses(third, ".lock", "the heir"))
	e.put(paused, "new", "x") // like any store without a lock
	own()
	return e.holds(heir, "a", "old", "new", "x")
}
