package storetest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"latentbeam/internal/storage/store"
)

// hang starts to replace an object and stops in the middle until finish is called.
func (e *Env) hang(s store.Store, name, content string) (finish func() error) {
	begun, goOn, done := make(chan bool, 1), make(chan bool), make(chan error, 1)
	go func() {
		done <- s.Replace(e.ctx, name, func(w io.Writer) error {
			err := text(content[:1])(w)
			begun <- true
			<-goOn
			return errors.Join(err, text(content[1:])(w))
		})
	}()
	select {
	case <-begun:
	case err := <-done:
		panic(stopped{fmt.Errorf("replace %s: %v", name, err)})
	}
	finish = sync.OnceValue(func() error {
		close(goOn)
		return <-done
	})
	e.ended = append(e.ended, func() { _ = finish() })
	return finish
}

func cleanNeedsLock(e *Env) error {
	s := e.open()
	if _, err := s.CleanTemps(e.ctx, ".lock"); err == nil {
		return errors.New("cleaned without a lock")
	}
	e.put(s, "a", "x")
	release := e.lock(s, ".lock", "a law")
	if n, err := s.CleanTemps(e.ctx, ".other"); n != 0 || err != nil {
		return fmt.Errorf("cleaned %d pieces where none were left, %v", n, err)
	}
	release()
	if _, err := s.CleanTemps(e.ctx); err == nil {
		return errors.New("cleaned after the lock was released")
	}
	return e.holds(s, "a", "x")
}

// cleanSpares: objects that this store, another shard and a store without a lock are writing are published in the end.
func cleanSpares(e *Env) error {
	one, two, three := e.open(), e.open(), e.open()
	defer e.lock(one, ".1-lock", "one")()
	defer e.lock(two, ".2-lock", "two")()
	content := strings.Repeat("content", 100_000)
	var finish []func() error
	for i, s := range []store.Store{one, two, three} {
		finish = append(finish, e.hang(s, fmt.Sprintf("d/%d", i), content))
	}
	if n, err := one.CleanTemps(e.ctx, ".3-lock"); n != 0 || err != nil {
		return fmt.Errorf("cleaned %d pieces of the living, %v", n, err)
	}
	for i, f := range finish {
		if err := f(); err != nil {
			return fmt.Errorf("what store %d was writing: %v", i, err)
		}
	}
	return errors.Join(e.holds(one, "d/0", content, "d/1", content, "d/2", content), e.noTemps("after all have ended"))
}

func cleanDead(e *Env) error {
	if e.Die == nil {
		return nil
	}
	for _, c := range []struct {
		lock string   // acquired by the store that cleans up
		free []string // its argument free
		gone bool     // whether the dead store's objects are removed
	}{
		{".other", nil, false}, {".other", []string{".third"}, false}, {".other", []string{".third", ".lock"}, true},
		{".lock", nil, true},
	} {
		dead, heir := e.open(), e.open()
		e.lock(dead, ".lock", "the dead")
		e.put(dead, "published", "x")
		finish := e.hang(dead, "half", strings.Repeat("half", 100_000))
		left := 0
		if e.Temps != nil {
			n, err := e.Temps()
			e.must(err)
			left = n
		}
		e.Die(dead)
		release := e.lock(heir, c.lock, "the heir")
		n, err := heir.CleanTemps(e.ctx, c.free...)
		if want := map[bool]int{true: left}[c.gone]; err != nil || n != want {
			return fmt.Errorf("%+v: cleaned %d pieces, want %d, %v", c, n, want, err)
		}
		if c.gone {
			e.must(e.noTemps("after the dead"))
			if err := finish(); err == nil {
				return fmt.Errorf("%+v: the dead published what was cleaned", c)
			}
			e.must(e.holds(heir, "half", ""))
		}
		e.must(e.holds(heir, "published", "x"))
		_ = finish() // so that the next case starts without it
		if err := heir.Remove(e.ctx, "half"); c.gone && err == nil {
			return fmt.Errorf("%+v: the dead published what was cleaned", c)
		}
		release()
	}
	return nil
}
