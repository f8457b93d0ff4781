package storetest

import (
	"context"
	"testing"

	"latentbeam/internal/storage/store"
)

// Outcome returns what a job promises to make again byte for byte: videos, posters and tables of the output that open
// finds at a path or an address, by name.
func Outcome(t testing.TB, open func(ctx context.Context, url string) (store.Store, error), url string) map[string]string {
	t.Helper()
	s, err := open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	files := map[string]string{}
	for _, prefix := range []string{"videos/", "posters/", "tables/"} {
		names, err := store.Names(t.Context(), s, prefix, store.Deep)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := store.ReadFile(t.Context(), s, name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = string(data)
		}
	}
	return files
}
