package pipelines_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
)

// flip changes a bit in the middle of a file; kept says that the file keeps its time.
func flip(t *testing.T, path string, at int, kept bool) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	data, err := os.ReadFile(path)
	must(t, err)
	data[at] ^= 1
	must(t, os.WriteFile(path, data, 0o644))
	when := info.ModTime()
	if !kept {
		when = when.Add(time.Second) // clocks of file systems tick
	}
	must(t, os.Chtimes(path, when, when))
}

func middle(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return int(info.Size() / 2)
}

// TestFlippedBits: damage that keeps the size of a file is found by its time, and without that by output.verify: digest.
// Its row alone is computed again.
func TestFlippedBits(t *testing.T) {
	j := newJob(t, diskTable)
	j.sets = []string{"output.write=[video]"}
	j.mustRun(t)
	file := func(id string, of int) string {
		return filepath.Join(j.out, filepath.FromSlash(videoFiles(t, j.out, id)[of]))
	}
	for _, c := range []struct {
		id string
		of int // of videoFiles
	}{{"a", 0}, {"b", 1}} {
		flip(t, file(c.id, c.of), middle(t, file(c.id, c.of)), false)
		j.computes(t, 1)
		flip(t, file(c.id, c.of), middle(t, file(c.id, c.of)), true)
		if r := j.mustRun(t); !r.NothingToDo {
			t.Errorf("a flipped bit in %s was found without reading it: %+v", file(c.id, c.of), r)
		}
		all := j
		all.sets = append([]string{"output.verify=digest"}, j.sets...)
		all.computes(t, 1)
	}
	j.sameAs(t, j.elsewhere(t))
}

// TestFlippedReport: tables and pages are always read.
func TestFlippedReport(t *testing.T) {
	j := newJob(t, diskTable)
	j.mustRun(t)
	for _, name := range []string{"tables/videos/00000.parquet", "tables/failures/00000.parquet", "index.html"} {
		path := filepath.Join(j.out, filepath.FromSlash(name))
		flip(t, path, middle(t, path), true)
		if r := j.mustRun(t); r.NothingToDo || r.Done != 0 {
			t.Errorf("%s: nothing to do %v, %d rows computed", name, r.NothingToDo, r.Done)
		}
	}
	j.sameAs(t, j.elsewhere(t))
}

// TestTouchedFiles: files with another time and the same content are read once, and nothing is computed.
func TestTouchedFiles(t *testing.T) {
	j := newJob(t, diskTable)
	j.mustRun(t)
	later := time.Now().Add(time.Hour)
	err := filepath.WalkDir(j.out, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Chtimes(path, later, later)
		}
		return err
	})
	must(t, err)
	rows := filepath.Join(j.out, "runs", "rows.bin")
	before, err := os.ReadFile(rows)
	must(t, err)
	if r := j.mustRun(t); !r.NothingToDo {
		t.Fatalf("a copy is not up to date: %+v", r)
	}
	after, err := os.ReadFile(rows)
	must(t, err)
	if bytes.Equal(before, after) {
		t.Error("the new times were not remembered")
	}
	was := stamps(t, j.out)
	if r := j.mustRun(t); !r.NothingToDo {
		t.Fatalf("%+v", r)
	}
	if wrote := touched(t, j.out, was); len(wrote) > 0 {
		t.Errorf("a run with nothing to do wrote %v", wrote)
	}
	must(t, os.RemoveAll(filepath.Join(j.out, "runs"))) // as an earlier program left it
	if r := j.mustRun(t); !r.NothingToDo {
		t.Errorf("an output without memory is not up to date: %+v", r)
	}
}

// TestFlippedTensors: a tensor that is damaged in its table is computed again with those of its page.
func TestFlippedTensors(t *testing.T) {
	j := newJob(t, diskTable)
	j.sets = []string{"output.rows_per_file=3"}
	j.mustRun(t)
	latents := filepath.Join(j.out, "tables", "latents", "00000.parquet")
	data, err := os.ReadFile(latents)
	must(t, err)
	at := bytes.Index(data, readRows[latentBytes](t, j.out, "latents")[1].Bytes)
	if at < 0 {
		t.Fatal("the tensor is not in its file as it is")
	}
	flip(t, latents, at, false)
	j.computes(t, 3) // those of its page
	flip(t, latents, at, true)
	j.opts.Repair = true
	j.computes(t, 3)
	j.opts.Repair = false
	flip(t, latents, len(data)-20, false) // the footer: nothing can be read
	j.computes(t, 3)
	j.sameAs(t, j.elsewhere(t))
}

// TestThreeFaults: a cut video, a flipped tensor and a damaged ledger at once are mended by one run.
func TestThreeFaults(t *testing.T) {
	j := newJob(t, diskTable)
	j.sets = []string{"output.rows_per_file=2"}
	j.mustRun(t)
	must(t, resize(filepath.Join(j.out, filepath.FromSlash(videoFiles(t, j.out, "a")[0])), -1))
	latents := filepath.Join(j.out, "tables", "latents", "00001.parquet")
	data, err := os.ReadFile(latents)
	must(t, err)
	flip(t, latents, bytes.Index(data, readRows[latentBytes](t, j.out, "latents")[2].Bytes), true) // row c, unseen
	segments, err := filepath.Glob(filepath.Join(j.out, "ledger", "*.seg"))
	must(t, err)
	flip(t, segments[0], middle(t, segments[0]), false)
	j.rewrite(t, strings.Replace(diskTable, "moves down", "moves up", 1)) // row d, in the file of c
	r := j.mustRun(t)
	if r.Totals.Pending != 0 || r.Totals.Failed != 0 {
		t.Fatalf("%+v", r.Totals)
	}
	j.sameTables(t, "after three faults")
	j.opts.Repair = true
	if r := j.mustRun(t); !r.NothingToDo {
		t.Errorf("there is something left to do: %+v", r.Plan)
	}
}

// TestDamagedOldFailures: failures of long ago, in a ledger that was compacted since, are computed again where their
// records are damaged.
func TestDamagedOldFailures(t *testing.T) {
	j := newJob(t, diskTable)
	j.mustRun(t)
	d, err := dir.Open(j.out)
	must(t, err)
	defer d.Close()
	l, err := ledger.Open(t.Context(), d)
	must(t, err)
	var rec ledger.Record
	must(t, l.Each(t.Context(), func(_ ledger.Ref, r ledger.Record) error { rec = r; return nil }))
	must(t, l.Compact(t.Context(), func(r ledger.Record) (bool, bool) { return r.Key != rec.Key, false }))
	rec.Status, rec.Row, rec.Blobs = ledger.Failed, []byte(`{"failure":{"class":"row","stage":"denoise","message":"long ago"}}`), nil
	must(t, l.Commit(t.Context(), []ledger.Record{rec}))
	must(t, l.Compact(t.Context(), func(ledger.Record) (bool, bool) { return true, true }))
	l.Close()
	path, data, _ := oneSegment(t, j.out)
	at := bytes.Index(data, []byte("long ago"))
	if at < 0 {
		t.Fatal("the failure is not in the ledger")
	}
	flip(t, path, at, false)
	j.computes(t, 1)
	j.sameTables(t, "after a damaged failure")
}

// TestForgottenFiles: files of which nothing is remembered are read; a damaged memory is no memory.
func TestForgottenFiles(t *testing.T) {
	j := newJob(t, diskTable)
	j.mustRun(t)
	must(t, os.Remove(filepath.Join(j.out, "runs", "rows.bin")))
	flip(t, filepath.Join(j.out, filepath.FromSlash(videoFiles(t, j.out, "a")[0])), 40, true)
	j.computes(t, 1) // what is not remembered is read
	flip(t, filepath.Join(j.out, "runs", "rows.bin"), 30, true)
	if r := j.mustRun(t); !r.NothingToDo {
		t.Errorf("a damaged memory of files made work: %+v", r)
	}
}
