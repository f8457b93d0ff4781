package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"latentbeam/internal/storage/store"
)

func listPrefixes(e *Env) error {
	s := e.open()
	if names, err := store.Names(e.ctx, s, "", store.Deep); len(names) > 0 || err != nil {
		return fmt.Errorf("an empty output has %q, %v", names, err)
	}
	all := []string{
		".lock-like", "b", "tables/a.parquet", "tables/b.parquet", "tablet", "videos-x", "videos/ab-c", "videos/ab/x",
		"videos/ab/y/z", "videos/c", "videos0",
	}
	for _, name := range all {
		e.put(s, name, name)
	}
	for _, c := range []struct {
		prefix string
		depth  store.Depth
		want   []string
	}{
		{"", store.Deep, all},
		{"", store.Flat, []string{".lock-like", "b", "tablet", "videos-x", "videos0"}},
		{"table", store.Deep, all[2:5]}, {"table", store.Flat, all[4:5]}, {"tables/", store.Flat, all[2:4]},
		{"tables/b", store.Flat, all[3:4]}, {"tables/", store.Deep, all[2:4]},
		{"videos/", store.Flat, []string{"videos/ab-c", "videos/c"}}, {"videos/", store.Deep, all[6:10]},
		{"videos/ab", store.Deep, all[6:9]}, {"videos/ab", store.Flat, all[6:7]}, {"videos/ab/", store.Flat, all[7:8]},
		{"videos/ab/y", store.Deep, all[8:9]}, {"videos/ab/y/", store.Deep, all[8:9]},
		{"videos", store.Flat, []string{"videos-x", "videos0"}},
		{"none/", store.Deep, nil}, {"x", store.Deep, nil}, {"b/", store.Deep, nil}, {"tables/a.parquet", store.Flat, all[2:3]},
		{".", store.Flat, all[:1]},
	} {
		got, err := store.Names(e.ctx, s, c.prefix, c.depth)
		if err != nil || !slices.Equal(got, c.want) {
			return fmt.Errorf("List(%q, %d) yields %q, %v; want %q", c.prefix, c.depth, got, err, c.want)
		}
	}
	for _, prefix := range []string{"../", "/", "a//", "a/../", "a\x00", ".tmp-", "a/.tmp-", `a\`} {
		if names, err := store.Names(e.ctx, s, prefix, store.Deep); err == nil {
			return fmt.Errorf("List(%q) yields %q", prefix, names)
		}
	}
	return nil
}

// listMany: more objects than a page of any bucket's listing.
func listMany(e *Env) error {
	s := e.open()
	var objects []store.Object
	for i := range 1100 {
		objects = append(objects, store.Object{Name: fmt.Sprintf("d%d/%04d", i%3, i), Data: []byte(strings.Repeat("x", i%7))})
	}
	e.must(s.Put(e.ctx, objects...))
	slices.SortFunc(objects, func(a, b store.Object) int { return strings.Compare(a.Name, b.Name) })
	i := 0
	for info, err := range s.List(e.ctx, "", store.Deep) {
		if err != nil || i == len(objects) || info.Name != objects[i].Name || info.Size != int64(len(objects[i].Data)) {
			return fmt.Errorf("object %d is listed as %+v, %v", i, info, err)
		}
		i++
	}
	if i != len(objects) {
		return fmt.Errorf("%d of %d objects are listed", i, len(objects))
	}
	for range s.List(e.ctx, "", store.Deep) { // callers may stop early
		if i--; i < 1050 {
			break
		}
	}
	again := s.List(e.ctx, "d1/", store.Flat)
	for range 2 {
		n := 0
		for _, err := range again {
			e.must(err)
			n++
		}
		if n != 367 {
			return fmt.Errorf("%d objects in d1/, want 367", n)
		}
	}
	return nil
}

func twoStores(e *Env) error {
	one, two := e.open(), e.open()
	look := func(want ...string) error {
		for _, s := range []store.Store{one, two} {
			if names, err := store.Names(e.ctx, s, "", store.Deep); err != nil || !slices.Equal(names, want) {
				return fmt.Errorf("listed %q, %v; want %q", names, err, want)
			}
		}
		return nil
	}
	e.must(look())
	e.put(one, "a/x", "1")
	e.must(errors.Join(look("a/x"), e.holds(two, "a/x", "1", "a/y", "")))
	e.put(two, "a/x", "1", "a/y", "2")
	e.must(errors.Join(look("a/x", "a/y"), e.holds(one, "a/y", "2")))
	e.must(one.Replace(e.ctx, "a/y", text("three")))
	e.must(e.holds(two, "a/y", "three"))
	e.must(two.Remove(e.ctx, "a/x"))
	e.must(errors.Join(look("a/y"), e.holds(one, "a/x", "")))
	e.must(two.Close())
	e.put(one, "b", "4")
	return e.holds(one, "a/y", "three", "b", "4")
}
