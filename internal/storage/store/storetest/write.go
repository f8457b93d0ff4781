package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"latentbeam/internal/storage/store"
)

func putOnce(e *Env) error {
	s := e.open()
	e.must(s.Put(e.ctx))
	for range 2 {
		e.put(s, "videos/ab/one.mp4", "one", "videos/cd/two.mp4", "two", "videos/ab/one.mp4", "one")
	}
	e.must(s.Put(e.ctx, store.Object{Name: "empty"}))
	e.must(s.Put(e.ctx, store.Object{Name: "empty", Data: []byte{}}))
	if info, err := s.Stat(e.ctx, "empty"); err != nil || info.Size != 0 {
		return fmt.Errorf("an empty object: %+v, %v", info, err)
	}
	return e.holds(s, "videos/ab/one.mp4", "one", "videos/cd/two.mp4", "two")
}

func putConflicts(e *Env) error {
	s := e.open()
	e.put(s, "a", "one", "b", "two")
	err := s.Put(e.ctx, objects("a", "uno!", "c", "three", "b", "tw0", "d", "four")...)
	conflicts, other := store.Conflicts(err)
	if other != nil || len(conflicts) != 2 || !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("two of four objects hold other bytes: %v", err)
	}
	for _, c := range conflicts {
		if c.Name == "a" && (c.HaveSize != 3 || c.WantSize != 4 || !strings.HasPrefix(c.HaveSHA, "7692c3ad3540bb80")) {
			return fmt.Errorf("the conflict says %+v", c)
		}
		if c.Name != "a" && c.Name != "b" {
			return fmt.Errorf("a conflict about %q", c.Name)
		}
	}
	return e.holds(s, "a", "one", "b", "two", "c", "three", "d", "four")
}

func putCopies(e *Env) error {
	s := e.open()
	data := []byte("bytes")
	e.must(s.Put(e.ctx, store.Object{Name: "a", Data: data}))
	e.must(s.Replace(e.ctx, "b", func(w io.Writer) error {
		_, err := w.Write(data)
		copy(data, "xxxxx")
		return err
	}))
	return e.holds(s, "a", "bytes", "b", "bytes")
}

func putRace(e *Env) error {
	stores := []store.Store{e.open(), e.open()}
	errs := make([]error, 16)
	var wg sync.WaitGroup
	content := func(i int) string { return []string{"same", "else"}[i%4/3] }
	for i := range errs {
		wg.Go(func() {
			errs[i] = stores[i%2].Put(e.ctx, objects("dir/race", content(i), fmt.Sprintf("dir/%d", i), content(i))...)
		})
	}
	wg.Wait()
	winner, err := store.ReadFile(e.ctx, stores[0], "dir/race")
	e.must(err)
	for i, err := range errs {
		lost := string(winner) != content(i)
		if errors.Is(err, store.ErrConflict) != lost || (err != nil) != lost {
			return fmt.Errorf("writer %d of %q, winner %q: %v", i, content(i), winner, err)
		}
		if err := e.holds(stores[1], fmt.Sprintf("dir/%d", i), content(i)); err != nil {
			return err
		}
	}
	return e.noTemps("after all writers have ended")
}

// noTemps returns an error if there are unpublished objects.
func (e *Env) noTemps(when string) error {
	if e.Temps == nil {
		return nil
	}
	n, err := e.Temps()
	if n != 0 || err != nil {
		return fmt.Errorf("%s %d pieces lie unpublished, %v", when, n, err)
	}
	return nil
}

// text returns a function that writes a text in pieces.
func text(pieces ...string) func(io.Writer) error {
	return func(w io.Writer) error {
		for _, p := range pieces {
			if _, err := io.WriteString(w, p); err != nil {
				return err
			}
		}
		return nil
	}
}

func replaceWhole(e *Env) error {
	s, other := e.open(), e.open()
	e.must(s.Replace(e.ctx, "tables/videos.parquet", text("old")))
	long := strings.Repeat("new", 200_000)
	e.must(other.Replace(e.ctx, "tables/videos.parquet", text("new", long, "new")))
	e.must(s.Replace(e.ctx, "empty", text()))
	e.put(s, "once", "put")
	e.must(s.Replace(e.ctx, "once", text("replaced")))
	if info, err := s.Stat(e.ctx, "empty"); err != nil || info.Size != 0 {
		return fmt.Errorf("an empty object: %+v, %v", info, err)
	}
	return errors.Join(e.holds(s, "tables/videos.parquet", "new"+long+"new", "once", "replaced"), e.noTemps("after replace"))
}

func replaceFails(e *Env) error {
	s := e.open()
	boom := errors.New("boom")
	fail := func(w io.Writer) error { return errors.Join(text(strings.Repeat("half", 100_000))(w), boom) }
	e.must(s.Replace(e.ctx, "a", text("old")))
	for _, name := range []string{"a", "b"} {
		if err := s.Replace(e.ctx, name, fail); !errors.Is(err, boom) {
			return fmt.Errorf("the writer's error came back as %v", err)
		}
	}
	ctx, cancel := context.WithCancel(e.ctx)
	err := s.Replace(ctx, "a", func(w io.Writer) error {
		cancel()
		return text("half")(w)
	})
	if !errors.Is(err, context.Canceled) {
		return fmt.Errorf("cancelled while it wrote: %v", err)
	}
	return errors.Join(e.holds(s, "a", "old", "b", ""), e.noTemps("after a failed replace"))
}

// replaceRace: readers see one of the contents, with its size, while several stores replace it.
func replaceRace(e *Env) error {
	writer, reader := e.open(), e.open()
	contents := []string{strings.Repeat("a", 10), strings.Repeat("b", 70_000), strings.Repeat("c", 3)}
	e.must(writer.Replace(e.ctx, "x", text(contents[0])))
	done := make(chan error, 1)
	go func() {
		for i := range 60 {
			if err := writer.Replace(e.ctx, "x", text(contents[i%3][:1], contents[i%3][1:])); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for looks := 0; ; looks++ {
		select {
		case err := <-done:
			return err
		default:
		}
		data, err := store.ReadFile(e.ctx, reader, "x")
		whole := len(data) > 0 && string(data) == contents[data[0]-'a']
		if err == nil && !whole || err != nil && !errors.Is(err, store.ErrChanged) {
			<-done
			return fmt.Errorf("look %d: %s, %v", looks, short(string(data)), err)
		}
		for info, err := range reader.List(e.ctx, "", store.Deep) {
			if err != nil || info.Name != "x" || info.Size != 10 && info.Size != 70_000 && info.Size != 3 {
				<-done
				return fmt.Errorf("listed while it is replaced: %+v, %v", info, err)
			}
		}
	}
}

// largeBytes is more than the clients of buckets send at a time.
const largeBytes = 33<<20 + 7

func largeObject(e *Env) error {
	s := e.open()
	data := make([]byte, largeBytes)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	e.must(s.Put(e.ctx, store.Object{Name: "put", Data: data}, store.Object{Name: "small", Data: data[:5]}))
	e.must(s.Put(e.ctx, store.Object{Name: "put", Data: data}))
	e.must(s.Replace(e.ctx, "replaced", func(w io.Writer) error {
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1<<20-1)
			if _, err := w.Write(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	}))
	for _, name := range []string{"put", "replaced"} {
		got, err := store.ReadFile(e.ctx, s, name)
		if err != nil || !bytes.Equal(got, data) {
			return fmt.Errorf("%s: %d bytes of %d, equal: %v, %v", name, len(got), len(data), bytes.Equal(got, data), err)
		}
	}
	data[largeBytes-1]++
	if err := s.Put(e.ctx, store.Object{Name: "put", Data: data}); !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("the last byte differs: %v", err)
	}
	return nil
}
