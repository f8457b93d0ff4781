package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/store"
)

// SchedulesEnv says how many random sequences of calls are tried, 3 without it.
const SchedulesEnv = "LATENTBEAM_STORE_SCHEDULES"

// schedule is one random sequence of calls by several stores, and what the output must hold.
type schedule struct {
	*Env
	rng     *rand.Rand
	stores  []store.Store
	release []func() // of each store, nil without a lock
	want    map[string]string
	names   []string
}

func random(e *Env) error {
	schedules, err := strconv.Atoi(os.Getenv(SchedulesEnv))
	if err != nil {
		schedules = 3
	}
	var opened []store.Store
	for range 3 {
		opened = append(opened, e.open())
	}
	for seed := range schedules {
		r := &schedule{Env: e, rng: rand.New(rand.NewPCG(uint64(seed), 1)), stores: opened, want: map[string]string{}}
		for i := range 4 {
			r.names = append(r.names, fmt.Sprintf("s%d/a/%d", seed, i), fmt.Sprintf("s%d/b%d", seed, i))
		}
		r.release = make([]func(), len(r.stores))
		for step := range 100 {
			if err := r.step(seed); err != nil {
				return fmt.Errorf("sequence %d, step %d: %v", seed, step, err)
			}
		}
		if err := r.end(); err != nil {
			return fmt.Errorf("sequence %d, its end: %v", seed, err)
		}
	}
	return e.noTemps("after all")
}

// end gives locks back, checks what is there, and removes it: services in memory look through all objects.
func (r *schedule) end() error {
	for _, release := range r.release {
		if release != nil {
			release()
		}
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

// step makes one call and compares its answer.
func (r *schedule) step(seed int) error {
	i := r.rng.IntN(len(r.stores))
	s, name := r.stores[i], r.names[r.rng.IntN(len(r.names))]
	content := strings.Repeat(string(rune('a'+r.rng.IntN(3))), 1+r.rng.IntN(3)*40_000)
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
		return r.lockStep(i)
	case 8:
		if r.release[i] != nil {
			_, err := s.CleanTemps(r.ctx)
			return err
		}
	}
	return r.holds(r.stores[(i+1)%len(r.stores)], name, r.want[name])
}

// lockStep takes the one lock, gives it back, or dies with it.
func (r *schedule) lockStep(i int) error {
	holder := slices.IndexFunc(r.release, func(f func()) bool { return f != nil })
	switch {
	case holder == i && r.Die != nil && r.rng.IntN(2) == 0:
		r.Die(r.stores[i])
		r.stores[i], r.release[i] = r.open(), nil
		return nil
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
