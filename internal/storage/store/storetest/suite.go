// Package storetest holds the laws of store.Store. Every kind of store runs them over itself:
//
//	storetest.Run(t, func(t testing.TB) storetest.Output { ... })
//
// A store of a bucket runs them twice: over a well-behaved server, and over one behind a proxy that fails, cuts
// connections and loses acknowledgements. The laws are the same.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"latentbeam/internal/storage/store"
)

// Output is a new, empty output with the operations on it that tests need.
type Output struct {
	// Open opens another store on the output, as another process would. The suite closes it.
	Open func(ctx context.Context) (store.Store, error)
	// Die stops a store as kill -9 would: its lock and unpublished objects stay. It returns when others can acquire the lock.
	// If it is nil, the rules about death are not checked.
	Die func(s store.Store)
	// Leases says that a store may continue after its death, like a process after a long pause.
	Leases bool
	// Lossy says that requests may hang for longer than a lease, so that a lock may be lost while its process lives.
	Lossy bool
	// Temps counts the unpublished objects in the output; nil: there are never any.
	Temps func() (int, error)
	// Tell makes the service behind the output tell a lie; Honest stops it. Nil: there is no service.
	Tell func(lie Lie)
	// Patience is how long a call that meets a lie may take; 0: usualPatience.
	Patience time.Duration
}

// Law is one rule of store.Store.
type Law struct {
	Name  string
	Check func(e *Env) error // returns how the rule is broken, nil if it is kept
}

// Laws returns all rules, sorted by subject.
func Laws() []Law {
	return []Law{
		{"put publishes once", putOnce},
		{"put goes on behind a conflict", putConflicts},
		{"put keeps no bytes of its caller", putCopies},
		{"of many that put one wins", putRace},
		{"replace is whole", replaceWhole},
		{"a failed replace changes nothing", replaceFails},
		{"nobody sees half of a replace", replaceRace},
		{"large objects", largeObject},
		{"reads go by range", readRanges},
		{"a reader never mixes", readChanged},
		{"sizes", sizes},
		{"marks change with the content", marks},
		{"a missing object is ErrNotExist", missing},
		{"remove", remove},
		{"list goes by prefix", listPrefixes},
		{"list is complete and sorted", listMany},
		{"stores see each other", twoStores},
		{"good names", goodNames},
		{"refused names", refusedNames},
		{"a store says where it is", address},
		{"an ended context changes nothing", cancelled},
		{"a lock excludes", lockExcludes},
		{"a lock says whose it is", lockOwner},
		{"looking takes no lock", heldTakesNothing},
		{"a lock ends with its process", lockDies},
		{"who lost the lock writes nothing", lockLost},
		{"cleaning needs the lock", cleanNeedsLock},
		{"cleaning spares the living", cleanSpares},
		{"cleaning removes what the dead left", cleanDead},
		{"a refused write of nothing ends", refusedNew},
		{"a version that nobody knows ends", otherTags},
		{"a listing without an end ends", endlessPages},
		{"a crash leaves whole objects", crash},
		{"any sequence of calls", random},
	}
}

// Run checks all rules, each on its own output.
func Run(t *testing.T, output func(t testing.TB) Output) {
	for _, law := range Laws() {
		t.Run(law.Name, func(t *testing.T) {
			if err := law.Try(t, output(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Try checks a rule on a new output. A panic of the store breaks the rule.
func (l Law) Try(t testing.TB, o Output) (err error) {
	e := &Env{Output: o, t: t, ctx: t.Context()}
	defer e.finish()
	defer func() {
		if r := recover(); r != nil {
			if stop, ok := r.(stopped); ok {
				err = stop.error
				return
			}
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return l.Check(e)
}

// Env is the output under test, with helpers for rules.
type Env struct {
	Output
	t     testing.TB
	ctx   context.Context
	ended []func()
}

// stopped is the panic with which a helper stops a rule.
type stopped struct{ error }

func (e *Env) finish() {
	for _, f := range e.ended {
		f()
	}
}

// open opens a store that is closed when the rule ends.
func (e *Env) open() store.Store {
	s, err := e.Open(e.ctx)
	e.must(err)
	e.ended = append(e.ended, func() { _ = s.Close() })
	return s
}

// must stops the rule if err is not nil.
func (e *Env) must(err error) {
	if err != nil {
		panic(stopped{err})
	}
}

// put publishes objects, given as name, content, name, content.
func (e *Env) put(s store.Store, namesAndContents ...string) {
	e.must(s.Put(e.ctx, objects(namesAndContents...)...))
}

func objects(namesAndContents ...string) (out []store.Object) {
	for i := 0; i < len(namesAndContents); i += 2 {
		out = append(out, store.Object{Name: namesAndContents[i], Data: []byte(namesAndContents[i+1])})
	}
	return out
}

// holds returns an error if an object has another content than given; "" means that the object is missing.
func (e *Env) holds(s store.Store, namesAndContents ...string) error {
	var wrong []error
	for i := 0; i < len(namesAndContents); i += 2 {
		name, want := namesAndContents[i], namesAndContents[i+1]
		got, err := store.ReadFile(e.ctx, s, name)
		there, existErr := store.Exists(e.ctx, s, name)
		switch {
		case want == "":
			if there || existErr != nil || err == nil {
				wrong = append(wrong, fmt.Errorf("%s is there: %v, %v, read: %v", name, there, existErr, err))
			}
		case err != nil || string(got) != want || !there || existErr != nil:
			wrong = append(wrong, fmt.Errorf("%s holds %s (there: %v, %v, %v), want %s",
				name, short(string(got)), there, existErr, err, short(want)))
		}
	}
	return errors.Join(wrong...)
}

// short shortens a text for a message.
func short(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%d bytes %q...", len(s), s[:40])
	}
	return fmt.Sprintf("%q", s)
}
