package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"latentbeam/internal/storage/store"
)

func goodNames(e *Env) error {
	s := e.open()
	names := []string{
		"a", "A1", ".hidden", "..x", "a b/c  d", "100%/50%25.mp4", "a+b&c=d?e#f", "~", "-", "a'b\"c", "*[x]{y}",
		"日本語/映像.mp4", "Å/é", "emoji-\U0001f600", "tmp-x", "x.tmp-y", strings.Repeat("n", 250),
		strings.Repeat(strings.Repeat("d", 99)+"/", 9) + "end",
	}
	for _, name := range names {
		e.put(s, name, "put "+name)
		e.must(e.holds(s, name, "put "+name))
		e.must(s.Replace(e.ctx, name, text("replaced "+name)))
	}
	slices.Sort(names)
	listed, err := store.Names(e.ctx, s, "", store.Deep)
	if err != nil || !slices.Equal(listed, names) {
		return fmt.Errorf("listed %q, %v; want %q", listed, err, names)
	}
	for _, name := range names {
		e.must(e.holds(s, name, "replaced "+name))
		if listed, err := store.Names(e.ctx, s, name, store.Deep); err != nil || !slices.Contains(listed, name) {
			return fmt.Errorf("List(%q) yields %q, %v", name, listed, err)
		}
		e.must(s.Remove(e.ctx, name))
	}
	return e.noTemps("after remove")
}

// refused are names that mean different things in different places, or nothing.
var refused = []string{
	"", ".", "..", "../x", "a/../../x", "a/../b", "/etc/x", "a//b", "a/", "/", "./a", "a/.", "a\x00b", "a\nb", "a\x7f",
	"\xff", `a\b`, `C:\x`, "c:x", "gs://b/x", store.TempPrefix + "x", "a/" + store.TempPrefix + "x", store.TempPrefix + "x/a",
	strings.Repeat("a", 251), strings.Repeat("a/", 600) + "a", strings.Repeat("../", 40) + "etc/x",
}

func refusedNames(e *Env) error {
	s := e.open()
	for _, name := range refused {
		_, openErr := s.Open(e.ctx, name)
		_, statErr := s.Stat(e.ctx, name)
		_, lockErr := s.Lock(e.ctx, name, "a law")
		for call, err := range map[string]error{
			"Put": s.Put(e.ctx, objects("good", "x", name, "x")...), "Replace": s.Replace(e.ctx, name, text("x")),
			"Open": openErr, "Stat": statErr, "Remove": s.Remove(e.ctx, name), "Lock": lockErr, "Held": s.Held(e.ctx, name),
		} {
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s took the name %q: %v", call, name, err)
			}
		}
	}
	if names, err := store.Names(e.ctx, s, "", store.Deep); len(names) > 0 || err != nil {
		return fmt.Errorf("a refused name made %q, %v", names, err)
	}
	return nil
}

func address(e *Env) error {
	one, two := e.open(), e.open()
	if one.URL() == "" || one.URL() != two.URL() || strings.Contains(one.URL(), "@") {
		return fmt.Errorf("two stores of one output are at %q and %q", one.URL(), two.URL())
	}
	return nil
}

// cancelled: every call with an ended context returns its error and does nothing.
func cancelled(e *Env) error {
	s := e.open()
	e.put(s, "a", "old")
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	sizes := s.Sizes(e.ctx)
	defer sizes.Close()
	_, openErr := s.Open(ctx, "a")
	_, statErr := s.Stat(ctx, "a")
	_, sizeErr := sizes.Of(ctx, "a")
	_, listErr := store.Names(ctx, s, "", store.Deep)
	_, noneErr := store.Names(ctx, s, "none/", store.Deep)
	_, lockErr := s.Lock(ctx, "lock", "a law")
	for call, err := range map[string]error{
		"Put": s.Put(ctx, objects("b", "x")...), "Replace": s.Replace(ctx, "a", func(w io.Writer) error { return text("new")(w) }),
		"Open": openErr, "Stat": statErr, "Sizes": sizeErr, "List": listErr, "List of nothing": noneErr,
		"Remove": s.Remove(ctx, "a"), "Lock": lockErr, "Held": s.Held(ctx, "lock"),
	} {
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("%s with an ended context: %v", call, err)
		}
	}
	release, err := s.Lock(e.ctx, "lock", "a law")
	if err != nil {
		return fmt.Errorf("the lock after one that was cancelled: %v", err)
	}
	defer release()
	if _, err := s.CleanTemps(ctx); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("CleanTemps with an ended context: %v", err)
	}
	return errors.Join(e.holds(s, "a", "old", "b", ""), e.noTemps("after cancelled calls"))
}
