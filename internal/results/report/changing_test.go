package report

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/storetest"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// bytesOfTensor is more than a reader of tables reads ahead.
const bytesOfTensor = 1 << 20

// inMemory is newJob on a store of which nothing stays readable that is replaced. Its rows a to f are in tables alone.
func inMemory(t *testing.T, m *storetest.Memory) *Job {
	t.Helper()
	s, err := m.Open(t.Context(), "")
	must(t, err)
	l, err := ledger.Open(t.Context(), s)
	must(t, err)
	names := input(strings.Split("a b c d e f", " "))
	j := &Job{Title: "test", Store: s, Ledger: l, Rows: names.rows, Facts: Facts{Model: "tiny", Weights: "w", Class: "cpu", Version: "v1"},
		Keep: map[stages.Kind]bool{stages.KindLatents: true}, RowsPerFile: 2}
	t.Cleanup(func() { j.Release(); l.Close() })
	j.settle(t, bytesOfTensor, names...)
	j.write(t)
	must(t, j.Compact(t.Context()))
	rec, err := l.Cursor().Find(ledger.Key(element("a", 1).Key))
	if err != nil || len(rec.Blobs) > 0 {
		t.Fatalf("the ledger still has the tensors: %+v, %v", rec, err)
	}
	return j
}

// TestMovedRowsWithoutOldFiles: rows move to later files, and the files that had their tensors are replaced before.
func TestMovedRowsWithoutOldFiles(t *testing.T) {
	j := inMemory(t, storetest.NewMemory())
	j.settle(t, bytesOfTensor, "new")
	names := input(strings.Split("new a b c d e f", " "))
	j.Rows = names.rows
	j.write(t)
	var got []string
	files, err := store.Names(t.Context(), j.Store, "tables/latents/", store.Flat)
	must(t, err)
	for _, name := range files {
		f, err := j.Store.Open(t.Context(), name)
		must(t, err)
		tensors, err := typed.OpenTensors(name, f)
		must(t, err)
		for row := range tensors.Rows() {
			data, err := tensors.Read("vae_latent_bytes", row)
			must(t, err)
			got = append(got, strings.Trim(string(data[:4]), "*"))
		}
		must(t, tensors.Close())
	}
	if !slices.Equal(got, names) {
		t.Errorf("the files hold the tensors of %q, want %q", got, names)
	}
}

// TestTablesOutOfReach: a table that cannot be reached now is not one that holds nothing.
func TestTablesOutOfReach(t *testing.T) {
	m := storetest.NewMemory()
	away := false
	m.Fault = func(call, name string) error {
		if away && call == "Open" && strings.HasPrefix(name, "tables/latents/") {
			return fault.TryAgain(errors.New("503"))
		}
		return nil
	}
	j := inMemory(t, m)
	away = true
	if held, err := j.Holds(t.Context(), ledger.Key(element("a", 1).Key), schemas.BlobLatents); err == nil {
		t.Errorf("the tables are said to hold it: %v", held)
	}
	if err := j.remove(t.Context(), j.tableName("latents", 0),
		func(uint64) bool { return false }); fault.ExitCode(err) != fault.ExitTryAgain {
		t.Errorf("a table was removed that could not be read: %v", err)
	}
	away = false
	for _, name := range []string{"a", "f"} {
		if held, err := j.Holds(t.Context(), ledger.Key(element(name, 1).Key), schemas.BlobLatents); !held || err != nil {
			t.Errorf("when it is back, %s is held: %v, %v", name, held, err)
		}
	}
}
