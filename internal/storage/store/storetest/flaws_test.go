package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/storage/store"
	"latentbeam/schemas/fault"
)

// flaw is a store that breaks a law.
type flaw struct {
	name string
	law  string // that catches it
	bend func(b *bent)
}

// set gives a name a content, however the store may be asked to do it.
func (b *bent) set(name string, data []byte) {
	b.memory.mu.Lock()
	defer b.memory.mu.Unlock()
	b.memory.objects[name] = &object{data}
}

// content is what write makes, with its error.
func content(write func(io.Writer) error) ([]byte, error) {
	var w bytes.Buffer
	err := write(&w)
	return w.Bytes(), err
}

// looksFirst is a put that looks whether a name is free, and writes later.
func looksFirst(b *bent) {
	b.put = func(ctx context.Context, objects []store.Object) error {
		for _, o := range objects {
			if found, _ := store.Exists(ctx, b.Handle, o.Name); found {
				return b.Handle.Put(ctx, objects...)
			}
		}
		time.Sleep(10 * time.Millisecond)
		for _, o := range objects {
			b.set(o.Name, bytes.Clone(o.Data))
		}
		return nil
	}
}

// halfAtDeath is a put that writes an object in two steps.
func halfAtDeath(b *bent) {
	b.put = func(ctx context.Context, objects []store.Object) error {
		for _, o := range objects {
			if found, _ := store.Exists(ctx, b.Handle, o.Name); !found {
				b.set(o.Name, o.Data[:len(o.Data)/2])
				fault.Point(fault.StorePutTempWritten)
				b.set(o.Name, bytes.Clone(o.Data))
			}
		}
		return nil
	}
}

var writeFlaws = []flaw{
	{"put takes its own lost acknowledgement for a conflict", "put publishes once", func(b *bent) {
		b.put = func(ctx context.Context, objects []store.Object) error {
			for _, o := range objects {
				if found, _ := store.Exists(ctx, b.Handle, o.Name); found {
					return &store.ConflictError{Name: o.Name}
				}
			}
			return b.Handle.Put(ctx, objects...)
		}
	}},
	{"put replaces", "put goes on behind a conflict", func(b *bent) {
		b.put = func(_ context.Context, objects []store.Object) error {
			for _, o := range objects {
				b.set(o.Name, bytes.Clone(o.Data))
			}
			return nil
		}
	}},
	{"put ends at the first conflict", "put goes on behind a conflict", func(b *bent) {
		b.put = func(ctx context.Context, objects []store.Object) error {
			for _, o := range objects {
				if err := b.Handle.Put(ctx, o); err != nil {
					return err
				}
			}
			return nil
		}
	}},
	{"put compares sizes alone", "put goes on behind a conflict", func(b *bent) {
		b.put = func(ctx context.Context, objects []store.Object) error {
			objects = slices.DeleteFunc(slices.Clone(objects), func(o store.Object) bool {
				info, err := b.Handle.Stat(ctx, o.Name)
				return err == nil && info.Size == int64(len(o.Data))
			})
			return b.Handle.Put(ctx, objects...)
		}
	}},
	{"put keeps the bytes of its caller", "put keeps no bytes of its caller", func(b *bent) {
		b.replace = func(_ context.Context, name string, write func(io.Writer) error) error {
			var kept aliased
			err := write(&kept)
			b.set(name, kept)
			return err
		}
	}},
	{"put looks before it writes", "of many that put one wins", looksFirst},
	{"put looks before it writes, of two alone", "any sequence of calls", looksFirst},
	{"replace takes the first piece alone", "replace is whole", func(b *bent) {
		b.replace = func(ctx context.Context, name string, write func(io.Writer) error) error {
			return b.Handle.Replace(ctx, name, func(w io.Writer) error { return write(&first{w: w}) })
		}
	}},
	{"replace publishes what a failed writer wrote", "a failed replace changes nothing", func(b *bent) {
		b.replace = func(_ context.Context, name string, write func(io.Writer) error) error {
			data, err := content(write)
			b.set(name, data)
			return err
		}
	}},
	{"replace writes in place", "nobody sees half of a replace", func(b *bent) {
		b.replace = func(_ context.Context, name string, write func(io.Writer) error) error {
			data, err := content(write)
			b.set(name, data[:len(data)/2])
			time.Sleep(time.Millisecond)
			b.set(name, data)
			return err
		}
	}},
	{"objects end at 16 MiB", "large objects", func(b *bent) {
		b.put = func(ctx context.Context, objects []store.Object) error {
			objects = slices.Clone(objects)
			for i, o := range objects {
				objects[i].Data = o.Data[:min(len(o.Data), 16<<20)]
			}
			return b.Handle.Put(ctx, objects...)
		}
	}},
	{"a crash leaves half an object", "a crash leaves whole objects", halfAtDeath},
	{"a death leaves half an object", "any sequence of calls", halfAtDeath},
	{"the third replace of a name is lost", "any sequence of calls", func(b *bent) {
		seen := map[string]int{}
		b.replace = func(ctx context.Context, name string, write func(io.Writer) error) error {
			if seen[name]++; seen[name] == 3 {
				return nil
			}
			return b.Handle.Replace(ctx, name, write)
		}
	}},
	{"names are no file names", "refused names", func(b *bent) {
		b.put = func(_ context.Context, objects []store.Object) error {
			for _, o := range objects {
				b.set(o.Name, bytes.Clone(o.Data))
			}
			return nil
		}
	}},
	{"a batch with a refused name is begun", "refused names", func(b *bent) {
		b.put = func(ctx context.Context, objects []store.Object) error {
			for _, o := range objects {
				if err := b.Handle.Put(ctx, o); err != nil {
					return err
				}
			}
			return nil
		}
	}},
	{"a plus in a name is a space", "good names", func(b *bent) {
		b.put = func(ctx context.Context, objects []store.Object) error {
			objects = slices.Clone(objects)
			for i := range objects {
				objects[i].Name = strings.ReplaceAll(objects[i].Name, "+", " ")
			}
			return b.Handle.Put(ctx, objects...)
		}
	}},
	{"contexts are not looked at", "an ended context changes nothing", func(b *bent) {
		b.put = func(ctx context.Context, objects []store.Object) error {
			return b.Handle.Put(context.WithoutCancel(ctx), objects...)
		}
	}},
}

// aliased keeps what it is given.
type aliased []byte

func (a *aliased) Write(b []byte) (int, error) {
	*a = b
	return len(b), nil
}

// first hands on the first write alone.
type first struct {
	w    io.Writer
	done bool
}

func (f *first) Write(b []byte) (int, error) {
	if f.done {
		return len(b), nil
	}
	f.done = true
	return f.w.Write(b)
}

var readFlaws = []flaw{
	{"the end of an object is no EOF", "reads go by range", func(b *bent) {
		b.open = func(ctx context.Context, name string) (store.Reader, error) {
			r, err := b.Handle.Open(ctx, name)
			return endless{r}, err
		}
	}},
	{"a reader follows the name", "a reader never mixes", func(b *bent) {
		b.open = func(ctx context.Context, name string) (store.Reader, error) {
			r, err := b.Handle.Open(ctx, name)
			return following{r, b.Handle, name}, err
		}
	}},
	{"a missing object has no bytes", "sizes", func(b *bent) {
		b.sizes = func(ctx context.Context) store.Sizes { return zeroes{b.Handle.Sizes(ctx)} }
	}},
	{"marks are sizes", "marks change with the content", func(b *bent) {
		b.stat = func(ctx context.Context, name string) (store.Info, error) {
			info, err := b.Handle.Stat(ctx, name)
			return bySize(info), err
		}
		b.list = func(ctx context.Context, prefix string, depth store.Depth) iter.Seq2[store.Info, error] {
			return func(yield func(store.Info, error) bool) {
				for info, err := range b.Handle.List(ctx, prefix, depth) {
					if !yield(bySize(info), err) {
						return
					}
				}
			}
		}
	}},
	{"a missing object is some error", "a missing object is ErrNotExist", func(b *bent) {
		b.open = func(ctx context.Context, name string) (store.Reader, error) {
			r, err := b.Handle.Open(ctx, name)
			if errors.Is(err, fs.ErrNotExist) {
				err = errors.New("404")
			}
			return r, err
		}
	}},
	{"a directory is an object", "a missing object is ErrNotExist", func(b *bent) {
		b.stat = func(ctx context.Context, name string) (store.Info, error) {
			if names, _ := store.Names(ctx, b.Handle, name+"/", store.Deep); len(names) > 0 {
				return store.Info{Name: name}, nil
			}
			return b.Handle.Stat(ctx, name)
		}
	}},
	{"a missing object can be removed", "a missing object is ErrNotExist", func(b *bent) {
		b.remove = func(ctx context.Context, name string) error {
			if err := b.Handle.Remove(ctx, name); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		}
	}},
	{"remove removes nothing", "remove", func(b *bent) {
		b.remove = func(context.Context, string) error { return nil }
	}},
	{"flat is deep", "list goes by prefix", func(b *bent) {
		b.list = func(ctx context.Context, prefix string, _ store.Depth) iter.Seq2[store.Info, error] {
			return b.Handle.List(ctx, prefix, store.Deep)
		}
	}},
	{"a prefix is a directory", "list goes by prefix", func(b *bent) {
		b.list = func(ctx context.Context, prefix string, depth store.Depth) iter.Seq2[store.Info, error] {
			return b.Handle.List(ctx, prefix[:strings.LastIndex(prefix, "/")+1], depth)
		}
	}},
	{"the second page is forgotten", "list is complete and sorted", func(b *bent) {
		b.list = func(ctx context.Context, prefix string, depth store.Depth) iter.Seq2[store.Info, error] {
			return func(yield func(store.Info, error) bool) {
				n := 0
				for info, err := range b.Handle.List(ctx, prefix, depth) {
					if n++; n > 1000 || !yield(info, err) {
						return
					}
				}
			}
		}
	}},
	{"a list is remembered", "stores see each other", func(b *bent) {
		var known []store.Info
		b.list = func(ctx context.Context, prefix string, depth store.Depth) iter.Seq2[store.Info, error] {
			return func(yield func(store.Info, error) bool) {
				if known == nil {
					known = []store.Info{}
					for info := range b.Handle.List(ctx, prefix, depth) {
						known = append(known, info)
					}
				}
				for _, info := range known {
					if !yield(info, nil) {
						return
					}
				}
			}
		}
	}},
	{"each store has an address", "a store says where it is", func(b *bent) {
		b.address = func() string { return fmt.Sprintf("memory://%p", b) }
	}},
}

// endless reads zero bytes behind the end.
type endless struct{ store.Reader }

func (r endless) ReadAt(b []byte, offset int64) (int, error) {
	n, err := r.Reader.ReadAt(b, offset)
	if err == io.EOF {
		return len(b), nil
	}
	return n, err
}

// following reads whatever has the name now.
type following struct {
	store.Reader
	from store.Store
	name string
}

func (r following) ReadAt(b []byte, offset int64) (int, error) {
	now, err := r.from.Open(context.Background(), r.name)
	if err != nil {
		return 0, store.ErrChanged
	}
	return now.ReadAt(b, offset)
}

type zeroes struct{ store.Sizes }

func (z zeroes) Of(ctx context.Context, name string) (store.Info, error) {
	n, err := z.Sizes.Of(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return n, err
}

// bySize marks an object by its size.
func bySize(info store.Info) store.Info {
	info.Mark = fmt.Sprint(info.Size)
	return info
}

var lockFlaws = []flaw{
	{"a lock excludes nobody", "a lock excludes", func(b *bent) {
		b.lock = func(context.Context, string, string) (func(), error) { return func() {}, nil }
	}},
	{"an old release frees the lock of another", "a lock excludes", func(b *bent) {
		b.lock = func(ctx context.Context, name, owner string) (func(), error) {
			release, err := b.Handle.Lock(ctx, name, owner)
			return func() {
				release()
				b.memory.mu.Lock()
				defer b.memory.mu.Unlock()
				delete(b.memory.leases, name)
			}, err
		}
	}},
	{"a lock does not say whose it is", "a lock says whose it is", func(b *bent) {
		b.lock = func(ctx context.Context, name, owner string) (func(), error) {
			release, err := b.Handle.Lock(ctx, name, owner)
			if err != nil {
				err = &store.LockedError{URL: b.URL(), Lock: name, Owner: store.Owner{Name: owner}}
			}
			return release, err
		}
	}},
	{"who looks takes the lock", "looking takes no lock", func(b *bent) {
		b.held = func(ctx context.Context, name string) error {
			_, err := b.Handle.Lock(ctx, name, "who looks")
			return err
		}
	}},
	{"a lock is for ever", "a lock ends with its process", func(b *bent) { b.immortal = true }},
	{"who lost the lock goes on", "who lost the lock writes nothing", func(b *bent) {
		b.put = func(ctx context.Context, objects []store.Object) error {
			for _, o := range objects {
				b.set(o.Name, bytes.Clone(o.Data))
			}
			return nil
		}
	}},
	{"cleaning needs no lock", "cleaning needs the lock", func(b *bent) {
		b.clean = func(context.Context, []string) (int, error) { return 0, nil }
	}},
	{"cleaning takes all", "cleaning spares the living", func(b *bent) {
		b.clean = func(context.Context, []string) (n int, err error) {
			b.memory.mu.Lock()
			defer b.memory.mu.Unlock()
			n = len(b.memory.pieces)
			clear(b.memory.pieces)
			return n, nil
		}
	}},
	{"cleaning takes nothing", "cleaning removes what the dead left", func(b *bent) {
		b.clean = func(context.Context, []string) (int, error) { return 0, nil }
	}},
	{"cleaning knows no other locks", "cleaning removes what the dead left", func(b *bent) {
		b.clean = func(ctx context.Context, _ []string) (int, error) { return b.Handle.CleanTemps(ctx) }
	}},
}

// forEver makes a call again until it succeeds, as a loop on the answers of a service does.
func forEver(ctx context.Context, call func() error) error {
	for {
		err := call()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

var lieFlaws = []flaw{
	{"a refused put is made again for ever", "a refused write of nothing ends", func(b *bent) {
		b.put = func(ctx context.Context, objects []store.Object) error {
			return forEver(ctx, func() error { return b.Handle.Put(ctx, objects...) })
		}
	}},
	{"a refused put is a conflict", "a refused write of nothing ends", func(b *bent) {
		b.put = func(ctx context.Context, objects []store.Object) error {
			if b.Handle.Put(ctx, objects...) != nil {
				return &store.ConflictError{Name: objects[0].Name}
			}
			return nil
		}
	}},
	{"a lock is read until it has the version that is told", "a version that nobody knows ends", func(b *bent) {
		b.held = func(ctx context.Context, name string) error {
			return forEver(ctx, func() error { return b.Handle.Held(ctx, name) })
		}
	}},
	{"each page is asked for the next one", "a listing without an end ends", func(b *bent) {
		b.list = func(ctx context.Context, prefix string, depth store.Depth) iter.Seq2[store.Info, error] {
			return func(yield func(store.Info, error) bool) {
				var found []store.Info
				err := forEver(ctx, func() error {
					for info, err := range b.Handle.List(ctx, prefix, depth) {
						if err != nil {
							return err
						}
						found = append(found, info)
					}
					return nil
				})
				for _, info := range found {
					if !yield(info, nil) {
						return
					}
				}
				if err != nil {
					yield(store.Info{}, err)
				}
			}
		}
	}},
}

// TestFlaws: each flaw is caught by its law, and each law catches one.
func TestFlaws(t *testing.T) {
	flaws := slices.Concat(writeFlaws, readFlaws, lockFlaws, lieFlaws)
	for _, law := range Laws() {
		caught := 0
		for _, f := range flaws {
			if f.law != law.Name {
				continue
			}
			caught++
			t.Run(f.name, func(t *testing.T) {
				if err := law.Try(t, f.output()); err == nil {
					t.Errorf("the law %q does not see it", law.Name)
				} else {
					t.Log(err)
				}
			})
		}
		if caught == 0 {
			t.Errorf("no flaw shows that the law %q sees anything", law.Name)
		}
	}
	t.Logf("P18: %d flaws of stores, %d of them loops without an end or a lie believed, are each caught by a law", len(flaws), len(lieFlaws))
}

// output is an output of flawed stores.
func (f flaw) output() Output {
	m := NewMemory()
	o := m.Output()
	o.Patience = 50 * time.Millisecond
	o.Open = func(context.Context) (store.Store, error) {
		b := &bent{Handle: &Handle{memory: m}}
		f.bend(b)
		return b, nil
	}
	o.Die = func(s store.Store) {
		if b := s.(*bent); !b.immortal {
			b.Die()
		}
	}
	return o
}
