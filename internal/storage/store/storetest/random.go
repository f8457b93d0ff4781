package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/system/testaid"
)

// SchedulesEnv sets how many random sequences of calls Schedules tries; the default is usualSchedules.
const (
	SchedulesEnv   = "LATENTBEAM_STORE_SCHEDULES"
	usualSchedules = 3
)

// Schedules tries many random sequences of calls on an output. about describes the conditions, for the test's log.
func Schedules(t *testing.T, o Output, about string) {
	n := testaid.Count(t, SchedulesEnv, usualSchedules)
	made := made{}
	law := Law{"many sequences of calls", func(e *Env) error { return e.schedules(n, &made) }}
	if err := law.Try(t, o); err != nil {
		t.Fatal(err)
	}
	t.Logf("P8: %d random schedules of %d calls by three stores%s: %d deaths, %d of them within a write, %d races; "+
		"0 objects lost, 0 doubled, 0 half visible", n, scheduleSteps, about, made.deaths, made.within, made.races)
}

// made counts what schedules have done.
type made struct{ deaths, within, races int }

// schedule is a random sequence of calls by several stores, and the expected content of the output.
type schedule struct {
	*Env
	*made
	rng     *rand.Rand
	stores  []store.Store
	release []func() // one for each store, nil without a lock
	want    map[string]string
	names   []string
}

const scheduleSteps = 100

func random(e *Env) error { return e.schedules(usualSchedules, &made{}) }

// schedules runs n sequences of calls.
func (e *Env) schedules(n int, made *made) error {
	var opened []store.Store
	for range 3 {
		opened = append(opened, e.open())
	}
	for seed := range n {
		r := &schedule{Env: e, made: made, rng: rand.New(rand.NewPCG(uint64(seed), 1)), stores: opened, want: map[string]string{}}
		for i := range 4 {
			r.names = append(r.names, fmt.Sprintf("s%d/a/%d", seed, i), fmt.Sprintf("s%d/b%d", seed, i))
		}
		r.release = make([]func(), len(r.stores))
		for step := range scheduleSteps {
			if err := r.step(seed); err != nil {
				return fmt.Errorf("sequence %d, step %d: %v", seed, step, err)
			}
		}
		if err := r.finish(); err != nil {
			return fmt.Errorf("sequence %d, its end: %v", seed, err)
		}
	}
	return nil
}

// finish releases locks, cleans up, checks the objects, and removes them, because services in memory search all objects.
func (r *schedule) finish() error {
	for _, release := range r.release {
		if release != nil {
			release()
		}
	}
	release := r.lock(r.stores[0], "lock", "the last")
	_, err := r.stores[0].CleanTemps(r.ctx)
	release()
	if err := errors.Join(err, r.noTemps("after cleaning")); err != nil {
		return err
	}
	for _, name := range r.names {
		if err := r.holds(r.stores[0], name, r.want[name]); err != nil {
			return err
		}
		if _, there := r.want[name]; !there {
			continue
		}
		if err := r.stores[0].Remove(r.ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// content returns a content for an object: one letter, repeated.
func (r *schedule) content() string {
	return strings.Repeat(string(rune('a'+r.rng.IntN(3))), 1+r.rng.IntN(3)*40_000)
}

// step makes one call and checks its answer.
func (r *schedule) step(seed int) error {
	i := r.rng.IntN(len(r.stores))
	s, name := r.stores[i], r.names[r.rng.IntN(len(r.names))]
	content := r.content()
	have, there := r.want[name]
	switch r.rng.IntN(10) {
	case 0, 1, 2:
		err := s.Put(r.ctx, objects(name, content)...)
		if conflict := there && have != content; conflict != errors.Is(err, store.ErrConflict) || !conflict && err != nil {
			return fmt.Errorf("put %s as %s over %s: %v", name, short(content), short(have), err)
		}
		if !there {
			r.want[name] = content
		}
	case 3, 4:
		if err := s.Replace(r.ctx, name, text(content[:1], content[1:])); err != nil {
			return err
		}
		r.want[name] = content
	case 5:
		if err := s.Remove(r.ctx, name); there != (err == nil) || !there && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s, there: %v: %v", name, there, err)
		}
		delete(r.want, name)
	case 6:
		names, err := store.Names(r.ctx, s, fmt.Sprintf("s%d/", seed), store.Deep)
		if err != nil || !slices.Equal(names, slices.Sorted(maps.Keys(r.want))) {
			return fmt.Errorf("listed %q, %v; want %q", names, err, slices.Sorted(maps.Keys(r.want)))
		}
	case 7:
		return r.lockStep(i, name, content)
	case 8:
		if r.release[i] != nil {
			_, err := s.CleanTemps(r.ctx)
			return err
		}
	case 9:
		return r.race(i, name, content)
	}
	return r.holds(r.stores[(i+1)%len(r.stores)], name, r.want[name])
}

// lockStep acquires the single lock, releases it, or dies with it during a write.
func (r *schedule) lockStep(i int, name, content string) error {
	holder := slices.IndexFunc(r.release, func(f func()) bool { return f != nil })
	switch {
	case holder == i && r.Die != nil && r.rng.IntN(2) == 0:
		err := r.die(i, name, content)
		r.stores[i], r.release[i] = r.open(), nil
		return err
	case holder == i:
		r.release[i]()
		r.release[i] = nil
		return nil
	}
	release, err := r.stores[i].Lock(r.ctx, "lock", fmt.Sprint("store ", i))
	var locked *store.LockedError
	switch {
	case holder < 0 && err == nil:
		r.release[i] = release
	case holder < 0 || !errors.As(err, &locked):
		return fmt.Errorf("lock by %d while %d holds it: %v", i, holder, err)
	}
	return nil
}
