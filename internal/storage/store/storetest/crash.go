package storetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// crashContents are the objects that crashWork creates: name, content.
var crashContents = []string{"d/1", "one", "d/2", strings.Repeat("two", 100_000), "e/3", "three"}

// crashWork does every kind of change to an output.
func (e *Env) crashWork(ctx context.Context, s store.Store) error {
	if err := s.Put(ctx, objects(crashContents...)...); err != nil {
		return err
	}
	if err := s.Replace(ctx, "t", text("new ", "content")); err != nil {
		return err
	}
	if err := s.Remove(ctx, "old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.Put(ctx, objects(crashContents[:2]...)...)
}

// crash stops a store forever at each of its fault points in turn, and lets another store continue.
func crash(e *Env) error {
	if e.Die == nil {
		return nil
	}
	defer fault.SetHook(nil)
	var points atomic.Int64
	e.put(e.open(), "old", "x")
	fault.SetHook(func(name string) {
		if strings.HasPrefix(name, "store.") {
			points.Add(1)
		}
	})
	e.must(e.crashWork(e.ctx, e.open()))
	fault.SetHook(nil)
	for n := range points.Load() {
		e.empty()
		worker := e.open()
		e.put(worker, "old", "x")
		e.must(worker.Replace(e.ctx, "t", text("old")))
		release := e.lock(worker, ".lock", "the crashed")
		reached, err := e.killed(worker, n, func(ctx context.Context) error { return e.crashWork(ctx, worker) }, e.afterCrash)
		if !reached { // with a faulty network the number of points differs
			release()
		}
		if err != nil {
			return fmt.Errorf("stopped at point %d of %d: %w", n+1, points.Load(), err)
		}
	}
	return nil
}

// killed stops a store forever at fault point number n of its work, and then calls after, before the remains of the dead store
// are cleaned up. If the work ends earlier, it returns false and the error of the work.
func (e *Env) killed(s store.Store, n int64, work func(context.Context) error, after func() error) (bool, error) {
	defer fault.SetHook(nil)
	stopped, goOn, ended := make(chan bool), make(chan bool), make(chan error, 1)
	var seen atomic.Int64
	fault.SetHook(func(name string) {
		if strings.HasPrefix(name, "store.") && seen.Add(1) == n+1 {
			close(stopped)
			<-goOn
			runtime.Goexit()
		}
	})
	ctx, die := context.WithCancel(e.ctx) // stops the store's concurrent work too
	defer die()
	go func() {
		defer close(ended)
		ended <- work(ctx)
	}()
	select {
	case <-stopped:
	case err := <-ended:
		return false, err
	}
	die()
	e.Die(s)
	err := after()
	close(goOn)
	<-ended
	return true, err
}

// empty removes all objects.
func (e *Env) empty() {
	s := e.open()
	names, err := store.Names(e.ctx, s, "", store.Deep)
	e.must(err)
	for _, name := range names {
		if !strings.HasSuffix(name, "lock") {
			e.must(s.Remove(e.ctx, name))
		}
	}
}

// afterCrash checks the objects, cleans up and does the work again.
func (e *Env) afterCrash() error {
	s := e.open()
	contents := append([]string{"t", "new content"}, crashContents...)
	for info, err := range s.List(e.ctx, "", store.Deep) {
		if err != nil {
			return err
		}
		if !slices.Contains(append(contents, ".lock", "old"), info.Name) {
			return fmt.Errorf("there is %+v", info)
		}
	}
	for i := 0; i < len(contents); i += 2 {
		got, err := store.ReadFile(e.ctx, s, contents[i])
		whole := string(got) == contents[i+1] || contents[i] == "t" && string(got) == "old"
		if err == nil && !whole || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s holds %s, %v", contents[i], short(string(got)), err) //nolint:errorlint // err may be nil
		}
	}
	release, err := s.Lock(e.ctx, ".lock", "the heir")
	if err != nil {
		return err
	}
	defer release()
	if _, err := s.CleanTemps(e.ctx); err != nil {
		return err
	}
	if err := e.noTemps("after cleaning"); err != nil {
		return err
	}
	if err := e.crashWork(e.ctx, s); err != nil {
		return err
	}
	return errors.Join(e.holds(s, append(contents, "old", "")...), e.noTemps("after the work"))
}
