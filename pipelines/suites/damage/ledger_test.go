package damage

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
)

// warnings collects the warnings of the log until the end of the test.
func warnings(t *testing.T) *bytes.Buffer {
	t.Helper()
	var text bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelWarn})))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &text
}

// oneSegment returns the only file of an output's ledger and the offsets of its records.
func oneSegment(t *testing.T, out string) (path string, data []byte, records []int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "ledger", "*.seg"))
	jobtest.Must(t, err)
	if len(files) != 1 {
		t.Fatalf("the ledger has the files %q, want one", files)
	}
	data, err = os.ReadFile(files[0])
	jobtest.Must(t, err)
	return files[0], data, recordsOf(data)
}

// recordsOf returns the offsets of the records in a segment; package ledger documents the format.
func recordsOf(data []byte) (records []int) {
	for at := 32; at < len(data); {
		records = append(records, at)
		n := binary.LittleEndian.Uint32(data[at+32:]) + binary.LittleEndian.Uint32(data[at+36:]) +
			uint32(binary.LittleEndian.Uint64(data[at+40:]))
		at += 64 + (int(n)+7)/8*8
	}
	return records
}

// TestDamagedLedger: if the ledger of a finished output is damaged, a run computes only the rows of the damaged records. Then
// the output is as before and the ledger is repaired. A plan reports this and changes nothing.
func TestDamagedLedger(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.MustRun(t)
	fresh := j.Elsewhere(t)
	for _, c := range []struct {
		what string
		rows int64
		bad  func(data []byte, records []int) []byte
	}{
		{"a bit of a row", 1, func(data []byte, at []int) []byte { data[at[1]+64+5] ^= 4; return data }},
		{"a bit of a record header", 1, func(data []byte, at []int) []byte { data[at[0]+33] ^= 1; return data }},
		{"a bit of a key", 1, func(data []byte, at []int) []byte { data[at[4]+7] ^= 128; return data }},
		{"a bit of the file header", 0, func(data []byte, _ []int) []byte { data[13] ^= 2; return data }},
		{"cut in the middle", 3, func(data []byte, at []int) []byte { return data[:at[2]+70] }},
		{"zeros", 5, func(data []byte, _ []int) []byte { return make([]byte, len(data)) }},
	} {
		path, data, records := oneSegment(t, j.Out)
		jobtest.Must(t, os.WriteFile(path, c.bad(data, records), 0o644))
		before := jobtest.MustRead(t, j.Out)
		if p := peek(t, j); p.New != c.rows || p.Done != 5-c.rows {
			t.Errorf("%s: the plan does not report the damage: %+v", c.what, p)
		}
		if files, _ := filepath.Glob(filepath.Join(j.Out, "ledger", "*")); len(files) != 1 || files[0] != path {
			t.Errorf("%s: the plan has changed the ledger: %q", c.what, files)
		}
		told := warnings(t)
		j.Computes(t, c.rows)
		if n := strings.Count(told.String(), filepath.Base(path)); n != 1 {
			t.Errorf("%s: got %d warnings about the damage, want 1: %s", c.what, n, told)
		}
		t.Logf("%s: %s", c.what, told)
		if wrong := before.Diff(jobtest.MustRead(t, j.Out)); len(wrong) > 0 {
			t.Errorf("%s: the output is wrong: %s", c.what, strings.Join(wrong, "\n"))
		}
		told.Reset()
		if r := j.MustRun(t); !r.NothingToDo || told.Len() > 0 {
			t.Errorf("%s: the run after the repair is not up to date, or warns: %+v, %s", c.what, r, told)
		}
		// Make one segment of the ledger again, for the next case.
		compact(t, j.Out)
	}
	j.SameAs(t, fresh)
}

// compact rewrites the ledger of an output as one segment without tensors.
func compact(t *testing.T, out string) {
	t.Helper()
	d, err := dir.Open(out)
	jobtest.Must(t, err)
	defer d.Close()
	l, err := ledger.Open(t.Context(), d)
	jobtest.Must(t, err)
	defer l.Close()
	jobtest.Must(t, l.Compact(t.Context(), func(ledger.Record) (bool, bool) { return true, false }))
}

// TestDamagedTensorInTheLedger: if a tensor that only the ledger has is damaged, the run finds this when it writes the tables, and
// computes the row.
func TestDamagedTensorInTheLedger(t *testing.T) {
	for _, shards := range []int{1, 2} {
		j := jobtest.NewJob(t, jobtest.DiskTable)
		j.MustRun(t)
		all := j.Sets
		j.Sets = []string{"output.write=[video, embeddings]"} // the latents go back into the ledger
		j.Computes(t, 0)
		if inLedger(t, j.Out) == 0 {
			t.Fatal("the ledger has no tensors")
		}
		path, data, records := largestSegment(t, j.Out)
		for _, i := range []int{1, 3} {
			data[records[i+1]-20] ^= 1 // a byte in the data of the record's blobs
		}
		jobtest.Must(t, os.WriteFile(path, data, 0o644))
		j.Sets = all
		told := warnings(t)
		computed := int64(0)
		for i := range shards {
			computed += j.Share(i, shards).MustRun(t).Done
		}
		if computed != 2 {
			t.Errorf("%d rows were computed by %d shards, want 2", computed, shards)
		}
		t.Logf("%d shards: %s", shards, told)
		if !strings.Contains(told.String(), filepath.Base(path)) || !strings.Contains(told.String(), "records_lost=2") {
			t.Errorf("the warnings do not name the damage: %s", told)
		}
		j.SameAs(t, j.Elsewhere(t))
		told.Reset()
		if r := j.MustRun(t); !r.NothingToDo || told.Len() > 0 {
			t.Errorf("the run after the repair is not up to date, or warns: %+v, %s", r, told)
		}
	}
}

// largestSegment returns the largest file of an output's ledger.
func largestSegment(t *testing.T, out string) (path string, data []byte, records []int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "ledger", "*.seg"))
	jobtest.Must(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		jobtest.Must(t, err)
		if len(b) > len(data) {
			path, data = f, b
		}
	}
	return path, data, recordsOf(data)
}
