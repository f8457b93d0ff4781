package storetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"latentbeam/internal/storage/store"
)

// pointsOfWrite is about how many fault points a write passes.
const pointsOfWrite = 5

// die stops a store at a random moment of a write. Other stores see the old object or the new one.
func (r *schedule) die(i int, name, content string) error {
	s, replaces := r.stores[i], r.rng.IntN(2) == 0
	have, there := r.want[name]
	write := func(ctx context.Context) error {
		if replaces {
			return s.Replace(ctx, name, text(content[:1], content[1:]))
		}
		err := s.Put(ctx, objects(name, content)...)
		if there && have != content && errors.Is(err, store.ErrConflict) {
			return nil
		}
		return err
	}
	look := func() error {
		got, err := store.ReadFile(r.ctx, r.stores[(i+1)%len(r.stores)], name)
		switch {
		case err == nil && there && string(got) == have:
		case err == nil && string(got) == content && (replaces || !there):
			r.want[name] = content
		case !there && errors.Is(err, fs.ErrNotExist):
		default:
			return fmt.Errorf("a store died as it wrote %s over %s to %s, which holds %s then, %v",
				short(content), short(have), name, short(string(got)), err)
		}
		return nil
	}
	within, err := r.killed(s, int64(r.rng.IntN(pointsOfWrite)), write, look)
	r.deaths++
	if within {
		r.within++
		return err
	}
	r.Die(s)
	return errors.Join(err, look())
}

// race lets two stores put one name at the same time, or one replace it, while a third one reads.
func (r *schedule) race(i int, name, content string) error {
	r.races++
	one, two, three := r.stores[i], r.stores[(i+1)%3], r.stores[(i+2)%3]
	contents := []string{content, r.content()}
	have, there := r.want[name]
	replaces := there && r.rng.IntN(2) == 0
	errs, looks := make([]error, 2), make([]error, 2)
	var wg sync.WaitGroup
	if replaces {
		wg.Go(func() { errs[0] = one.Replace(r.ctx, name, text(content[:1], content[1:])) })
	} else {
		wg.Go(func() { errs[0] = one.Put(r.ctx, objects(name, contents[0])...) })
		wg.Go(func() { errs[1] = two.Put(r.ctx, objects(name, contents[1])...) })
	}
	wg.Go(func() {
		for k := range looks {
			got, err := store.ReadFile(r.ctx, three, name)
			known := slices.Contains(contents, string(got)) || there && string(got) == have
			if err == nil && !known || err != nil && !errors.Is(err, store.ErrChanged) && (there || !errors.Is(err, fs.ErrNotExist)) {
				looks[k] = fmt.Errorf("while others write %s, it holds %s, %v", name, short(string(got)), err)
			}
		}
	})
	wg.Wait()
	if err := errors.Join(looks...); err != nil {
		return err
	}
	if replaces {
		r.want[name] = content
		return errors.Join(errs[0], r.holds(three, name, content))
	}
	return r.won(three, name, contents, errs)
}

// won checks which of two simultaneous puts has won. The other store must have got an error.
func (r *schedule) won(s store.Store, name string, contents []string, errs []error) error {
	got, err := store.ReadFile(r.ctx, s, name)
	winner := string(got)
	have, there := r.want[name]
	if err != nil || there && winner != have || !there && !slices.Contains(contents, winner) {
		return fmt.Errorf("two stores put %s over %s, and it holds %s, %v", name, short(have), short(winner), err)
	}
	r.want[name] = winner
	for k, err := range errs {
		if lost := contents[k] != winner; lost != errors.Is(err, store.ErrConflict) || !lost && err != nil {
			return fmt.Errorf("put %s as %s while %s wins: %v", name, short(contents[k]), short(winner), err)
		}
	}
	return nil
}
