package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"latentbeam/internal/storage/store"
)

func readRanges(e *Env) error {
	s := e.open()
	e.put(s, "a", "0123456789")
	f, err := s.Open(e.ctx, "a")
	e.must(err)
	defer f.Close()
	if f.Size() != 10 {
		return fmt.Errorf("size %d", f.Size())
	}
	for _, c := range []struct {
		offset int64
		length int
		want   string
		end    bool // io.EOF
	}{
		{0, 10, "0123456789", false}, {3, 4, "3456", false}, {9, 1, "9", false}, {8, 5, "89", true},
		{10, 1, "", true}, {500, 1, "", true}, {2, 0, "", false},
	} {
		buffer := make([]byte, c.length)
		n, err := f.ReadAt(buffer, c.offset)
		atEnd := errors.Is(err, io.EOF) && c.offset+int64(c.length) >= 10 // io.ReaderAt allows it for the last byte too
		if string(buffer[:n]) != c.want || err != nil && !atEnd || c.end && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%d bytes at %d: %q, %v; want %q, end: %v", c.length, c.offset, buffer[:n], err, c.want, c.end)
		}
	}
	if _, err := f.ReadAt(make([]byte, 1), -1); err == nil {
		return errors.New("a negative offset was read")
	}
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for range 20 {
				var b [1]byte
				if n, err := f.ReadAt(b[:], int64(i)); n != 1 || b[0] != byte('0'+i) {
					errs[i] = fmt.Errorf("at once with others, byte %d: %q, %v", i, b[:n], err)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// readChanged: a reader reads the object that it opened, or returns an error.
func readChanged(e *Env) error {
	s, other := e.open(), e.open()
	old := strings.Repeat("old", 500_000) // more than readers fetch at once
	for _, change := range []struct {
		what string
		do   func(name string) error
	}{
		{"replaced", func(name string) error { return other.Replace(e.ctx, name, text(strings.Repeat("new", 50_000))) }},
		{"cut short", func(name string) error { return other.Replace(e.ctx, name, text("n")) }}, // the rest is out of range
		{"removed", func(name string) error { return other.Remove(e.ctx, name) }},
		{"made again", func(name string) error {
			return errors.Join(other.Remove(e.ctx, name), other.Put(e.ctx, objects(name, strings.Repeat("made", 50_000))...))
		}},
		{"left", func(string) error { return s.Close() }},
	} {
		e.put(other, change.what, old)
		f, err := s.Open(e.ctx, change.what)
		e.must(err)
		late, err := s.Open(e.ctx, change.what) // nothing is read before the change
		e.must(err)
		buffer := make([]byte, len(old))
		_, err = f.ReadAt(buffer[:10], 0)
		e.must(err)
		e.must(change.do(change.what))
		n, err := f.ReadAt(buffer[10:], 10)
		if !bytes.HasPrefix([]byte(old), buffer[:10+n]) || err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, store.ErrChanged) {
			return fmt.Errorf("an object that was %s is read as %s, %v", change.what, short(string(buffer)), err)
		}
		if change.what == "left" && err != nil && err != io.EOF {
			return fmt.Errorf("a reader of a closed store: %v", err)
		}
		part, at := make([]byte, 10), len(old)-20
		n, err = late.ReadAt(part, int64(at))
		if !strings.HasPrefix(old[at:], string(part[:n])) || err != nil && !errors.Is(err, store.ErrChanged) {
			return fmt.Errorf("an object that was %s is read late as %s, %v", change.what, short(string(part)), err)
		}
		e.must(errors.Join(f.Close(), late.Close()))
	}
	return nil
}

func sizes(e *Env) error {
	s := e.open()
	e.put(s, "a", "1", "d/b", "22", "d/c", "333", "e/f/g", "4444")
	for what, sizes := range map[string]store.Sizes{"Sizes": s.Sizes(e.ctx), "ListSizes": store.ListSizes(s)} {
		for range 2 {
			for name, want := range map[string]int64{"a": 1, "d/b": 2, "d/c": 3, "e/f/g": 4} {
				got, err := sizes.Of(e.ctx, name)
				if got.Name != name || got.Size != want || got.Mark == "" || err != nil {
					return fmt.Errorf("%s of %s: %+v, %v; want %d", what, name, got, err, want)
				}
				if info, err := s.Stat(e.ctx, name); untimed(info) != untimed(got) || err != nil {
					return fmt.Errorf("Stat of %s: %+v, %v; want %d bytes", name, info, err, want)
				}
			}
			for _, name := range []string{"b", "d", "d/a", "d/d", "e/f", "none/x"} {
				if n, err := sizes.Of(e.ctx, name); !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("%s of %s, which is missing: %+v, %v", what, name, n, err)
				}
			}
		}
		if _, err := sizes.Of(e.ctx, "../a"); err == nil || errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s of a refused name: %v", what, err)
		}
		sizes.Close()
	}
	late := s.Sizes(e.ctx)
	defer late.Close()
	e.must(s.Replace(e.ctx, "d/b", text("longer")))
	fresh := s.Sizes(e.ctx)
	defer fresh.Close()
	if got, err := fresh.Of(e.ctx, "d/b"); got.Size != 6 || err != nil {
		return fmt.Errorf("size of a replaced object: %+v, %v; want 6", got, err)
	}
	return nil
}

// untimed removes the time, because some test services report different times in lists and elsewhere.
func untimed(info store.Info) store.Info {
	info.Time = 0
	return info
}

// marks: the mark of an object changes with its content, and is otherwise the same for all readers.
func marks(e *Env) error {
	s, other := e.open(), e.open()
	mark := func(s store.Store) string {
		sizes := s.Sizes(e.ctx)
		defer sizes.Close()
		info, err := sizes.Of(e.ctx, "d/a")
		e.must(err)
		stat, err := s.Stat(e.ctx, "d/a")
		e.must(err)
		for listed, err := range s.List(e.ctx, "d/", store.Flat) {
			e.must(err)
			if listed != info || untimed(stat) != untimed(info) {
				e.must(fmt.Errorf("Sizes describes %+v, Stat %+v, List %+v", info, stat, listed))
			}
		}
		return info.Mark
	}
	e.put(s, "d/a", "one")
	before := mark(s)
	if again := mark(other); again != before {
		return fmt.Errorf("nobody wrote, and the mark was %q and is %q", before, again)
	}
	time.Sleep(50 * time.Millisecond) // file systems have coarse clocks
	e.must(other.Replace(e.ctx, "d/a", text("two")))
	if after := mark(s); after == before {
		return fmt.Errorf("the content of an object changed, its mark %q did not", after)
	}
	return nil
}

// missing: no object, the directory of an object, and a removed object are treated alike.
func missing(e *Env) error {
	s := e.open()
	e.put(s, "d/a", "x", "gone", "y")
	e.must(s.Remove(e.ctx, "gone"))
	for _, name := range []string{"none", "d", "d/b", "d/a2", "none/x", "gone"} {
		_, openErr := s.Open(e.ctx, name)
		_, statErr := s.Stat(e.ctx, name)
		_, readErr := store.ReadFile(e.ctx, s, name)
		for call, err := range map[string]error{"Open": openErr, "Stat": statErr, "ReadFile": readErr, "Remove": s.Remove(e.ctx, name)} {
			if !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s of %q: %v", call, name, err)
			}
		}
	}
	return e.holds(s, "d/a", "x")
}

func remove(e *Env) error {
	s := e.open()
	e.put(s, "a", "1", "b/c", "2", "b/d", "3")
	e.must(s.Remove(e.ctx, "a"))
	e.must(s.Remove(e.ctx, "b/c"))
	if err := e.holds(s, "a", "", "b/c", "", "b/d", "3"); err != nil {
		return err
	}
	if names, err := store.Names(e.ctx, s, "", store.Deep); err != nil || len(names) != 1 {
		return fmt.Errorf("after two of three were removed: %q, %v", names, err)
	}
	e.put(s, "a", "other bytes")
	e.must(s.Remove(e.ctx, "b/d"))
	return e.holds(s, "a", "other bytes", "b/d", "")
}
