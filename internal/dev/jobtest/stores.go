package jobtest

import (
	"fmt"
	"strings"
	"testing"

	"latentbeam/internal/storage/store"
)

// Objects returns the digests of all objects of an output, without the ledger, whose commits depend on time, and facts of
// runs.
func Objects(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for info, err := range s.List(t.Context(), "", store.Deep) {
		Must(t, err)
		if strings.HasPrefix(info.Name, "ledger/") || strings.HasPrefix(info.Name, "readings/") || strings.HasPrefix(info.Name, "runs/") || isRunFact(info.Name) {
			continue
		}
		data, err := store.ReadFile(t.Context(), s, info.Name)
		Must(t, err)
		out[info.Name] = Digest(data)
	}
	return out
}

// RemoveFirst removes the first object with a prefix.
func RemoveFirst(t *testing.T, s store.Store, prefix string) error {
	names, err := store.Names(t.Context(), s, prefix, store.Deep)
	if err != nil || len(names) == 0 {
		return fmt.Errorf("%d objects start with %s, %w", len(names), prefix, err)
	}
	return s.Remove(t.Context(), names[0])
}
