package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// Lie is a way in which a service behind a store can be inconsistent. It answers each request, but the answers contradict each
// other.
type Lie string

// The lies of services.
const (
	Honest       Lie = ""
	RefusesNew   Lie = "a write of a new object is refused because there is one"
	OtherTags    Lie = "an object is described by a version that conditions do not know"
	EndlessPages Lie = "each page of a listing is followed by another one"
)

// usualPatience is how long a call that meets a lie may take. A store that loops forever takes longer.
const usualPatience = 20 * time.Second

// mustEnd makes calls while the service tells a lie. Each call must end by itself, with an error that may be gone at the next run
// (exit code 75), and must not report a conflict or another holder of a lock.
func (e *Env) mustEnd(lie Lie, calls map[string]func(ctx context.Context) error) error {
	e.Tell(lie)
	defer e.Tell(Honest)
	patience := e.Patience
	if patience == 0 {
		patience = usualPatience
	}
	var wrong []error
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(e.ctx, patience)
		err := call(ctx)
		late := ctx.Err() != nil
		cancel()
		var locked *store.LockedError
		switch {
		case late:
			wrong = append(wrong, fmt.Errorf("%s had no end: %v", name, err)) //nolint:errorlint // err may be nil
		case err == nil || errors.Is(err, store.ErrConflict) || errors.As(err, &locked):
			wrong = append(wrong, fmt.Errorf("%s: %v", name, err)) //nolint:errorlint // err may be nil
		case fault.ExitCode(err) != fault.ExitTryAgain && !errors.Is(err, store.ErrChanged):
			wrong = append(wrong, fmt.Errorf("%s: exit code %d: %v", name, fault.ExitCode(err), err))
		}
	}
	return errors.Join(wrong...)
}

// refusedNew: a new object cannot be written, and does not exist either.
func refusedNew(e *Env) error {
	if e.Tell == nil {
		return nil
	}
	s := e.open()
	err := e.mustEnd(RefusesNew, map[string]func(ctx context.Context) error{
		"Put": func(ctx context.Context) error { return s.Put(ctx, objects("a", "content")...) },
		"Lock": func(ctx context.Context) error {
			release, err := s.Lock(ctx, ".lock", "one")
			if err == nil {
				release()
			}
			return err
		},
		"Replace": func(ctx context.Context) error { return s.Replace(ctx, "b", text("content")) },
	})
	if err != nil {
		return err
	}
	e.put(s, "a", "content")
	e.lock(s, ".lock", "one")()
	return e.holds(s, "a", "content", "b", "")
}

// otherTags: a described version can neither be read nor overwritten.
func otherTags(e *Env) error {
	if e.Tell == nil {
		return nil
	}
	s, other := e.open(), e.open()
	e.put(s, "a", "content")
	release := e.lock(other, ".lock", "one")
	if err := e.mustEnd(OtherTags, map[string]func(ctx context.Context) error{
		"Put":     func(ctx context.Context) error { return s.Put(ctx, objects("a", "content")...) },
		"Replace": func(ctx context.Context) error { return s.Replace(ctx, "a", text("new")) },
		"Lock": func(ctx context.Context) error {
			release, err := s.Lock(ctx, ".lock", "two")
			if err == nil {
				release()
			}
			return err
		},
		"Held": func(ctx context.Context) error { return s.Held(ctx, ".lock") },
	}); err != nil {
		return err
	}
	release()
	e.lock(s, ".lock", "two")()
	return e.holds(s, "a", "content")
}

// endlessPages: a listing ends with an error, after the objects that it found before.
func endlessPages(e *Env) error {
	if e.Tell == nil {
		return nil
	}
	s := e.open()
	e.put(s, "a", "1", "b", "2")
	if err := e.mustEnd(EndlessPages, map[string]func(ctx context.Context) error{
		"List": func(ctx context.Context) error {
			_, err := store.Names(ctx, s, "", store.Deep)
			return err
		},
		"Sizes": func(ctx context.Context) error {
			sizes := s.Sizes(ctx)
			defer sizes.Close()
			_, err := sizes.Of(ctx, "a")
			return err
		},
	}); err != nil {
		return err
	}
	names, err := store.Names(e.ctx, s, "", store.Deep)
	if err != nil || len(names) != 2 {
		return fmt.Errorf("listed %q, %v", names, err)
	}
	return nil
}
