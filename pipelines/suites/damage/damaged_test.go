package damage

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/pipelines/planning"
)

// resize makes a file longer or shorter by a number of bytes.
func resize(path string, by int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, info.Size()+by)
}

// TestDamagedVideos: if a video or a poster is missing or has another size, only its row is computed again, and the output is as
// before. A plan reports this and changes nothing.
func TestDamagedVideos(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.Sets = []string{"output.write=[video]"}
	j.MustRun(t)
	for _, c := range []struct {
		id     string
		file   int // index in the result of jobtest.VideoFiles
		damage func(path string) error
	}{
		{"a", 0, func(path string) error { return resize(path, -1) }},
		{"b", 0, os.Remove},
		{"c", 1, func(path string) error { return resize(path, 1) }},
		{"d", 0, func(path string) error { return os.Truncate(path, 0) }},
		{"d", 1, os.Remove},
	} {
		if err := c.damage(filepath.Join(j.Out, filepath.FromSlash(jobtest.VideoFiles(t, j.Out, c.id)[c.file]))); err != nil {
			t.Fatal(err)
		}
	}
	before := jobtest.MustRead(t, j.Out)
	if p := peek(t, j); p.New != 4 || p.Done != 1 {
		t.Errorf("the plan does not report the damage: %+v", p)
	}
	if wrong := before.Diff(jobtest.MustRead(t, j.Out)); len(wrong) > 0 {
		t.Errorf("the plan changed the output: %v", wrong)
	}
	j.Computes(t, 4)
	if r := j.MustRun(t); !r.NothingToDo {
		t.Errorf("after all was repaired, a run computes %d rows of %+v, want none", r.Done, r.Plan)
	}
	j.SameAs(t, j.Elsewhere(t))
}

// peek returns the plan of the job.
func peek(t *testing.T, j jobtest.Job) planning.Plan {
	t.Helper()
	opened, err := j.Unattached()
	jobtest.Must(t, err)
	defer opened.Close()
	jobtest.Must(t, opened.Peek(t.Context()))
	p, err := opened.Plan(t.Context())
	jobtest.Must(t, err)
	return p
}

// TestDamagedReport: a table or page that is missing or has another size is written again. Rows are computed again only if
// their tensors are nowhere else and the table cannot be read.
func TestDamagedReport(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.Sets = []string{"output.rows_per_file=2"}
	j.MustRun(t)
	for _, c := range []struct {
		file string
		by   int64 // change of the size; 0: the file is removed
		rows int64 // number of computed rows
	}{
		{"tables/videos/00001.parquet", -1, 0}, {"tables/failures/00000.parquet", 0, 0}, {"index.html", 1, 0},
		{"tables/latents/00001.parquet", 1, 2}, {"tables/embeddings/00002.parquet", -1, 1},
	} {
		path := filepath.Join(j.Out, filepath.FromSlash(c.file))
		damage := os.Remove
		if c.by != 0 {
			damage = func(path string) error { return resize(path, c.by) }
		}
		if err := damage(path); err != nil {
			t.Fatal(err)
		}
		if r := j.MustRun(t); r.NothingToDo || r.Done != c.rows {
			t.Errorf("%s: %d rows computed, want %d; nothing to do: %v", c.file, r.Done, c.rows, r.NothingToDo)
		}
	}
	if r := j.MustRun(t); !r.NothingToDo {
		t.Errorf("after all was repaired, a run computes %d rows of %+v, want none", r.Done, r.Plan)
	}
	j.SameAs(t, j.Elsewhere(t))
}

// TestDamagedVideoOfAMissingTable: a damaged video, whether or not the damage is detected, is replaced if its row is computed again
// for another reason: a missing table of tensors or a damaged ledger.
func TestDamagedVideoOfAMissingTable(t *testing.T) {
	flip := func(path string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		data[len(data)/2] ^= 1
		return os.WriteFile(path, data, 0o644)
	}
	cut := func(path string) error { return resize(path, -1) }
	whole := jobtest.NewJob(t, jobtest.DiskTable)
	whole.Sets = []string{"output.rows_per_file=2"}
	whole.MustRun(t)
	want := jobtest.MustRead(t, whole.Out)
	for what, damage := range map[string][2]func(path string) error{
		"a cut video": {cut, nil}, "a cut poster": {nil, cut}, "a flipped bit": {flip, flip}, "a removed video": {os.Remove, flip},
	} {
		for _, cause := range []string{"tables/latents/00000.parquet", "ledger"} {
			j := whole.Elsewhere(t)
			jobtest.Must(t, os.CopyFS(j.Out, os.DirFS(whole.Out)))
			keyOfB, err := hex.DecodeString(strings.TrimSuffix(filepath.Base(jobtest.VideoFiles(t, j.Out, "b")[0]), ".mp4"))
			jobtest.Must(t, err)
			for i, damage := range damage {
				if damage != nil {
					jobtest.Must(t, damage(filepath.Join(j.Out, filepath.FromSlash(jobtest.VideoFiles(t, j.Out, "b")[i]))))
				}
			}
			rows := int64(2)
			if cause == "ledger" {
				path, data, _ := oneSegment(t, j.Out)
				data[bytes.Index(data, keyOfB)] ^= 1
				jobtest.Must(t, os.WriteFile(path, data, 0o644))
				rows = 1
			} else {
				jobtest.Must(t, os.Remove(filepath.Join(j.Out, cause)))
			}
			if r := j.MustRun(t); r.Done != rows || r.Totals.Failed != 0 {
				t.Errorf("%s, %s: %d rows computed, want %d; %+v", what, cause, r.Done, rows, r.Totals)
			}
			if wrong := want.Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
				t.Errorf("%s, %s: the output differs from that of a new run:\n%s", what, cause, strings.Join(wrong, "\n"))
			}
			if r := j.MustRun(t); !r.NothingToDo {
				t.Errorf("%s, %s: after all was repaired there are rows to compute: %+v", what, cause, r.Totals)
			}
		}
	}
}

// TestForeignVideoIsKept: if a file that no run wrote has the name of a video, it is not replaced, and only its row fails.
func TestForeignVideoIsKept(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	fresh := j.Elsewhere(t)
	fresh.MustRun(t)
	file := filepath.Join(j.Out, filepath.FromSlash(jobtest.VideoFiles(t, fresh.Out, "c")[0]))
	jobtest.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	jobtest.Must(t, os.WriteFile(file, []byte("theirs"), 0o644))
	for _, retry := range []bool{false, true} {
		again := j
		again.Opts.Retry = retry
		if r := again.MustRun(t); r.Totals.Failed != 1 || r.Totals.Done != 4 {
			t.Errorf("got totals %+v, want one failed row", r.Totals)
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != "theirs" {
			t.Errorf("the file that no run wrote now has %.20q, %v", data, err)
		}
	}
}

// TestDamagedBeforeSizesWereNoted: an output of an earlier release, which did not record the sizes of posters and tables, is up to date.
func TestDamagedBeforeSizesWereNoted(t *testing.T) {
	j := jobtest.NewJob(t, jobtest.DiskTable)
	j.Sets = []string{"output.write=[video]"}
	j.MustRun(t)
	summary := filepath.Join(j.Out, "summary.json")
	text, err := os.ReadFile(summary)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), `"files": {`)
	_, rest, closed := strings.Cut(rest, "},")
	if !found || !closed {
		t.Fatalf("the summary lists no files: %s", text)
	}
	if err := os.WriteFile(summary, []byte(head+rest), 0o644); err != nil {
		t.Fatal(err)
	}
	withoutPosterSizes(t, j.Out)
	jobtest.Must(t, os.RemoveAll(filepath.Join(j.Out, "runs")))
	if err := resize(filepath.Join(j.Out, filepath.FromSlash(jobtest.VideoFiles(t, j.Out, "c")[1])), 1); err != nil {
		t.Fatal(err)
	}
	if r := j.MustRun(t); !r.NothingToDo {
		t.Errorf("a run on the output of an earlier release has something to do: %+v", r)
	}
}

// withoutPosterSizes rewrites the ledger of an output in the form of an earlier version.
func withoutPosterSizes(t *testing.T, out string) {
	t.Helper()
	dir, err := dir.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	l, err := ledger.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var records []ledger.Record
	err = l.Each(t.Context(), func(_ ledger.Ref, r ledger.Record) error {
		head, rest, found := strings.Cut(string(r.Row), `"poster_bytes":`)
		if !found {
			return errors.New("a record has no size of its poster")
		}
		_, rest, _ = strings.Cut(rest, ",")
		r.Row = []byte(head + rest)
		records = append(records, r)
		return nil
	})
	if err == nil {
		err = l.Commit(t.Context(), records)
	}
	if err != nil {
		t.Fatal(err)
	}
}
