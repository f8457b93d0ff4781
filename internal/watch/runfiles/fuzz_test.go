package runfiles_test

import (
	"testing"

	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/storetest"
	"latentbeam/internal/watch/runfiles"
)

// FuzzFacts: whatever the files of a run contain, readers return a result or an error.
func FuzzFacts(f *testing.F) {
	f.Add([]byte(`{"id": "a", "started": "2026-01-02T03:04:05Z", "runner": "local"}`),
		[]byte(`{"schema": 1, "process": "p", "at": "2026-01-02T03:04:05Z", "rows": {"done": 1}}`))
	f.Add([]byte(`{"schema": 2}`), []byte(`null`))
	f.Add([]byte(``), []byte(`[]`))
	f.Fuzz(func(t *testing.T, job, facts []byte) {
		s, err := storetest.NewMemory().Open(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		err = s.Put(t.Context(), store.Object{Name: runfiles.Prefix + "one/job.json", Data: job},
			store.Object{Name: runfiles.Prefix + "one/facts-p.json", Data: facts},
			store.Object{Name: runfiles.Prefix + "one/stop", Data: facts})
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := runfiles.List(t.Context(), s)
		if err != nil || len(jobs) != 1 {
			t.Fatalf("got %d jobs, %v; want 1", len(jobs), err)
		}
		j := runfiles.Folder{Store: s, ID: "one"}
		_, _ = j.ReadFacts(t.Context())
		_, _ = j.Stopped(t.Context())
	})
}

// FuzzWitness: the witness of an output (runs/files.json and rows.bin) has the digests of its files and rows. Whatever these two files
// contain, LoadWitness returns a witness, so that a run can start: it ignores invalid files.
func FuzzWitness(f *testing.F) {
	f.Add([]byte(`{"schema": 1, "files": {"a": {"size": 1}}}`), []byte("LBROWS1\n\x00\x00\x00\x00"))
	f.Add([]byte(`{"schema": 2}`), []byte{})
	f.Fuzz(func(t *testing.T, files, rows []byte) {
		s, err := storetest.NewMemory().Open(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), store.Object{Name: "runs/files.json", Data: files},
			store.Object{Name: "runs/rows.bin", Data: rows}); err != nil {
			t.Fatal(err)
		}
		if w, err := fingerprints.LoadWitness(t.Context(), s); err != nil || w == nil {
			t.Fatalf("got %v, %v; want a witness", w, err)
		}
	})
}

// FuzzRows: whatever the files with the rows for workers contain, a reader returns a result or an error,
// and never more bytes than the file has.
func FuzzRows(f *testing.F) {
	f.Add([]byte(`[{"offset": 0, "length": 3}, {"offset": 3, "length": 0}]`), []byte("abc"))
	f.Add([]byte(`[{"offset": -1, "length": 9223372036854775807}, {"length": -5}]`), []byte("abc"))
	f.Add([]byte(`{"host": "h", "pid": -1, "start": "1", "rows": ["a", "a"]}`), []byte{})
	f.Fuzz(func(t *testing.T, places, rows []byte) {
		s, err := storetest.NewMemory().Open(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		err = s.Put(t.Context(), store.Object{Name: runfiles.Prefix + "one/rows.json", Data: places},
			store.Object{Name: runfiles.Prefix + "one/rows", Data: rows},
			store.Object{Name: runfiles.Prefix + "one/begun-p.json", Data: places},
			store.Object{Name: runfiles.Prefix + "one/death-q.json", Data: places},
			store.Object{Name: runfiles.Prefix + "one/trouble-p.json", Data: places})
		if err != nil {
			t.Fatal(err)
		}
		j := runfiles.Folder{Store: s, ID: "one"}
		r, err := j.OpenRows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		blocks, _ := j.Blocks(t.Context())
		for _, b := range blocks {
			if data, err := b.Read(r); err == nil && len(data) > len(rows) {
				t.Fatalf("a block has %d bytes, the whole file only %d", len(data), len(rows))
			}
		}
		_, _ = j.Suspects(t.Context(), map[string][]string{})
		_, _ = j.Troubles(t.Context(), map[string]runfiles.Trouble{})
		_ = j.Marks("me").RecordDeaths(t.Context())
	})
}
