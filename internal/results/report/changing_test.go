package report

import (
	"encoding/json"
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

// bytesOfTensor is larger than the read-ahead of a reader of tables.
const bytesOfTensor = 1 << 20

// inMemory returns a job on a store whose replaced objects cannot be read any more. The tensors of its rows a to f are only in tables.
func inMemory(t *testing.T, m *storetest.Memory) *Job {
	t.Helper()
	s, err := m.Open(t.Context(), "")
	must(t, err)
	l, err := ledger.Open(t.Context(), s)
	must(t, err)
	names := input(strings.Split("a b c d e f", " "))
	j := &Job{Title: "test", Rows: names.rows, Facts: Facts{Model: "tiny", Weights: "w", Class: "cpu", Version: "v1"},
		Keep: map[stages.Kind]bool{stages.KindLatents: true}, RowsPerFile: 2}
	j.on(s, l)
	t.Cleanup(func() { j.Tensors.Close(); l.Close() })
	j.settle(t, bytesOfTensor, names...)
	j.written(t)
	must(t, j.Tensors.TruncateLog(t.Context()))
	rec, err := l.Cursor().Find(ledger.Key(element("a", 1).Key))
	if err != nil || len(rec.Blobs) > 0 {
		t.Fatalf("the ledger still has the tensors: %+v, %v", rec, err)
	}
	return j
}

// TestMovedRowsWithoutOldFiles: rows move to later files after the files with their tensors were replaced.
func TestMovedRowsWithoutOldFiles(t *testing.T) {
	j := inMemory(t, storetest.NewMemory())
	j.settle(t, bytesOfTensor, "new")
	names := input(strings.Split("new a b c d e f", " "))
	j.Rows = names.rows
	j.written(t)
	var got []string
	files, err := store.Names(t.Context(), j.Output.Store, "tables/latents/", store.Flat)
	must(t, err)
	for _, name := range files {
		f, err := j.Output.Store.Open(t.Context(), name)
		must(t, err)
		table, err := typed.OpenTensors(name, f)
		must(t, err)
		for row := range table.Rows() {
			data, err := table.Read("vae_latent_bytes", row)
			must(t, err)
			got = append(got, strings.Trim(string(data[:4]), "*"))
		}
		must(t, table.Close())
	}
	if !slices.Equal(got, names) {
		t.Errorf("the files hold the tensors of %q, want %q", got, names)
	}
}

// TestTablesOutOfReach: a table that the store cannot read now does not count as empty.
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
	if held, err := j.hasLatents(t, "a"); err == nil {
		t.Errorf("no error, although the tables cannot be read: %v", held)
	}
	if err := j.Tensors.Remove(t.Context(), j.place().table("latents", 0)); fault.ExitCode(err) != fault.ExitTryAgain {
		t.Errorf("a table that could not be read was removed: %v", err)
	}
	away = false
	for _, name := range []string{"a", "f"} {
		if held, err := j.hasLatents(t, name); !held || err != nil {
			t.Errorf("when the table can be read again: %s is in a table: %v, %v", name, held, err)
		}
	}
}

// hasLatents reports whether the home of tensors has the latents of a row.
func (j *Job) hasLatents(t *testing.T, name string) (bool, error) {
	t.Helper()
	cursor := j.Ledger.Cursor()
	defer cursor.Close()
	rec, err := cursor.Find(ledger.Key(element(name, 1).Key))
	must(t, err)
	var r schemas.Result
	must(t, json.Unmarshal(rec.Row, &r))
	return j.Tensors.Has(t.Context(), rec, r, map[stages.Kind]bool{stages.KindLatents: true})
}
