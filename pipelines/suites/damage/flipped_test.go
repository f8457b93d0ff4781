package damage

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
)

// flip changes a bit in the middle of a file. If kept is true, the file keeps its modification time.
func flip(t *testing.T, path string, at int, kept bool) {
	t.Helper()
	info, err := os.Stat(path)
	jobtest.Must(t, err)
	data, err := os.ReadFile(path)
	jobtest.Must(t, err)
	data[at] ^= 1
	jobtest.Must(t, os.WriteFile(path, data, 0o644))
	when := info.ModTime()
	if !kept {
		when = when.Add(time.Second) // some file systems store times in seconds
	}
	jobtest.Must(t, os.Chtimes(path, when, when))
}

// middle returns the offset of the middle of a file.
func middle(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	jobtest.Must(t, err)
	return int(info.Size() / 2)
}

// TestFlippedBits: damage that does not change the size of a file is found by its time. If the time is unchanged too,
// output.verify: digest finds it. Only its row is computed again.
func TestFlippedBits(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.Sets = []string{"output.write=[video]"}
	j.MustRun(t)
	file := func(id string, of int) string {
		return filepath.Join(j.Out, filepath.FromSlash(jobtest.VideoFiles(t, j.Out, id)[of]))
	}
	for _, c := range []struct {
		id string
		of int // index in the result of jobtest.VideoFiles
	}{{"a", 0}, {"b", 1}} {
		flip(t, file(c.id, c.of), middle(t, file(c.id, c.of)), false)
		j.Computes(t, 1)
		flip(t, file(c.id, c.of), middle(t, file(c.id, c.of)), true)
		if r := j.MustRun(t); !r.NothingToDo {
			t.Errorf("a flipped bit in %s was found, although size and time are unchanged and the job did not ask for digests: %+v", file(c.id, c.of), r)
		}
		all := j
		all.Sets = append([]string{"output.verify=digest"}, j.Sets...)
		all.Computes(t, 1)
	}
	j.SameAs(t, j.Elsewhere(t))
}

// TestFlippedReport: tables and pages are always compared with their digests.
func TestFlippedReport(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.MustRun(t)
	for _, name := range []string{"tables/videos/00000.parquet", "tables/failures/00000.parquet", "index.html"} {
		path := filepath.Join(j.Out, filepath.FromSlash(name))
		flip(t, path, middle(t, path), true)
		if r := j.MustRun(t); r.NothingToDo || r.Done != 0 {
			t.Errorf("%s: nothing to do: %v, %d rows computed; want a new report and no computed row", name, r.NothingToDo, r.Done)
		}
	}
	j.SameAs(t, j.Elsewhere(t))
}

// TestTouchedFiles: files with a new time and unchanged content are read once, and nothing is computed.
func TestTouchedFiles(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.MustRun(t)
	later := time.Now().Add(time.Hour)
	err := filepath.WalkDir(j.Out, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Chtimes(path, later, later)
		}
		return err
	})
	jobtest.Must(t, err)
	rows := filepath.Join(j.Out, "runs", "rows.bin")
	before, err := os.ReadFile(rows)
	jobtest.Must(t, err)
	if r := j.MustRun(t); !r.NothingToDo {
		t.Fatalf("a copy of the output is not up to date: %+v", r)
	}
	after, err := os.ReadFile(rows)
	jobtest.Must(t, err)
	if bytes.Equal(before, after) {
		t.Error("the new times were not remembered")
	}
	was := jobtest.Stamps(t, j.Out)
	if r := j.MustRun(t); !r.NothingToDo {
		t.Fatalf("the run after it is not up to date: %+v", r)
	}
	if wrote := jobtest.Touched(t, j.Out, was); len(wrote) > 0 {
		t.Errorf("a run with nothing to do wrote %v", wrote)
	}
	jobtest.Must(t, os.RemoveAll(filepath.Join(j.Out, "runs"))) // earlier releases did not write it
	if r := j.MustRun(t); !r.NothingToDo {
		t.Errorf("an output without the directory runs is not up to date: %+v", r)
	}
}

// TestFlippedTensors: if a tensor in a table is damaged, all rows of its page are computed again.
func TestFlippedTensors(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.Sets = []string{"output.rows_per_file=3"}
	j.MustRun(t)
	latents := filepath.Join(j.Out, "tables", "latents", "00000.parquet")
	data, err := os.ReadFile(latents)
	jobtest.Must(t, err)
	at := bytes.Index(data, jobtest.ReadRows[latentBytes](t, j.Out, "latents")[1].Bytes)
	if at < 0 {
		t.Fatal("the file does not contain the bytes of the tensor")
	}
	flip(t, latents, at, false)
	j.Computes(t, 3) // all rows of the damaged page
	flip(t, latents, at, true)
	j.Opts.Repair = true
	j.Computes(t, 3)
	j.Opts.Repair = false
	flip(t, latents, len(data)-20, false) // damages the footer, so that nothing of the table can be read
	j.Computes(t, 3)
	j.SameAs(t, j.Elsewhere(t))
}

// TestThreeFaults: one run repairs a truncated video, a damaged tensor and a damaged ledger.
func TestThreeFaults(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.Sets = []string{"output.rows_per_file=2"}
	j.MustRun(t)
	jobtest.Must(t, resize(filepath.Join(j.Out, filepath.FromSlash(jobtest.VideoFiles(t, j.Out, "a")[0])), -1))
	latents := filepath.Join(j.Out, "tables", "latents", "00001.parquet")
	data, err := os.ReadFile(latents)
	jobtest.Must(t, err)
	flip(t, latents, bytes.Index(data, jobtest.ReadRows[latentBytes](t, j.Out, "latents")[2].Bytes), true) // row c; the time of the file is kept, so that only reading it shows the damage
	segments, err := filepath.Glob(filepath.Join(j.Out, "ledger", "*.seg"))
	jobtest.Must(t, err)
	flip(t, segments[0], middle(t, segments[0]), false)
	j.Rewrite(t, strings.Replace(jobtest.DiskTable, "moves down", "moves up", 1)) // row d, in the file of c
	r := j.MustRun(t)
	if r.Totals.Pending != 0 || r.Totals.Failed != 0 {
		t.Fatalf("got totals %+v", r.Totals)
	}
	sameTables(t, j, "after three faults")
	j.Opts.Repair = true
	if r := j.MustRun(t); !r.NothingToDo {
		t.Errorf("after the repair there are rows to compute: %+v", r.Plan)
	}
}

// TestDamagedOldFailures: old failures in a compacted ledger are computed again if their records are
// damaged.
func TestDamagedOldFailures(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.MustRun(t)
	d, err := dir.Open(j.Out)
	jobtest.Must(t, err)
	defer d.Close()
	l, err := ledger.Open(t.Context(), d)
	jobtest.Must(t, err)
	var rec ledger.Record
	jobtest.Must(t, l.Each(t.Context(), func(_ ledger.Ref, r ledger.Record) error { rec = r; return nil }))
	jobtest.Must(t, l.Compact(t.Context(), func(r ledger.Record) (bool, bool) { return r.Key != rec.Key, false }))
	rec.Status, rec.Row, rec.Blobs = ledger.Failed, []byte(`{"failure":{"class":"row","stage":"denoise","message":"long ago"}}`), nil
	jobtest.Must(t, l.Commit(t.Context(), []ledger.Record{rec}))
	jobtest.Must(t, l.Compact(t.Context(), func(ledger.Record) (bool, bool) { return true, true }))
	l.Close()
	path, data, _ := oneSegment(t, j.Out)
	at := bytes.Index(data, []byte("long ago"))
	if at < 0 {
		t.Fatal("the failure is not in the ledger")
	}
	flip(t, path, at, false)
	j.Computes(t, 1)
	sameTables(t, j, "after a damaged failure")
}

// TestMissingDigests: files without recorded digests are read. Damaged digests are ignored.
func TestMissingDigests(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.MustRun(t)
	jobtest.Must(t, os.Remove(filepath.Join(j.Out, "runs", "rows.bin")))
	flip(t, filepath.Join(j.Out, filepath.FromSlash(jobtest.VideoFiles(t, j.Out, "a")[0])), 40, true)
	j.Computes(t, 1) // files without a recorded digest are read
	flip(t, filepath.Join(j.Out, "runs", "rows.bin"), 30, true)
	if r := j.MustRun(t); !r.NothingToDo {
		t.Errorf("a damaged rows.bin made a run compute rows: %+v", r)
	}
}
