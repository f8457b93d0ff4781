package storetest

import (
	"context"
	"testing"

	"latentbeam/internal/storage/store"
)

// Outcome returns the files that a job promises to reproduce byte for byte: videos, posters and tables, by name. open opens the
// output at url.
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
