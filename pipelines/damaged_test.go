package pipelines_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/pipelines/planning"
)

func resize(path string, by int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, info.Size()+by)
}

// TestDamagedVideos: a video or a poster that is gone, or another size than it was written, is missing: its row alone
// is computed again and everything is as it was. A plan says so before, and changes nothing.
func TestDamagedVideos(t *testing.T) {
	j := newJob(t, diskTable)
	j.sets = []string{"output.write=[video]"}
	j.mustRun(t)
	for _, c := range []struct {
		id     string
		file   int // of videoFiles
		damage func(path string) error
	}{
		{"a", 0, func(path string) error { return resize(path, -1) }},
		{"b", 0, os.Remove},
		{"c", 1, func(path string) error { return resize(path, 1) }},
		{"d", 0, func(path string) error { return os.Truncate(path, 0) }},
		{"d", 1, os.Remove},
	} {
		if err := c.damage(filepath.Join(j.out, filepath.FromSlash(videoFiles(t, j.out, c.id)[c.file]))); err != nil {
			t.Fatal(err)
		}
	}
	before := mustRead(t, j.out)
	if p := peek(t, j); p.New != 4 || p.Done != 1 {
		t.Errorf("the plan is %+v", p)
	}
	if wrong := before.diff(mustRead(t, j.out)); len(wrong) > 0 {
		t.Errorf("the plan changed the output: %v", wrong)
	}
	j.computes(t, 4)
	if r := j.mustRun(t); !r.NothingToDo {
		t.Errorf("there is something to do after all was mended: %d rows of %+v", r.Done, r.Plan)
	}
	j.sameAs(t, j.elsewhere(t))
}

// peek is what a plan finds.
func peek(t *testing.T, j job) planning.Plan {
	t.Helper()
	opened, err := j.unattached()
	must(t, err)
	defer opened.Close()
	must(t, opened.Peek(t.Context()))
	p, err := opened.Plan(t.Context())
	must(t, err)
	return p
}

// TestDamagedReport: a table or page that is gone, or another size than it was written, is written anew. Rows are
// computed again only where nothing else has their tensors and the table cannot be read.
func TestDamagedReport(t *testing.T) {
	j := newJob(t, diskTable)
	j.sets = []string{"output.rows_per_file=2"}
	j.mustRun(t)
	for _, c := range []struct {
		file string
		by   int64 // 0: it is removed
		rows int64 // that are computed
	}{
		{"tables/videos/00001.parquet", -1, 0}, {"tables/failures/00000.parquet", 0, 0}, {"index.html", 1, 0},
		{"tables/latents/00001.parquet", 1, 2}, {"tables/embeddings/00002.parquet", -1, 1},
	} {
		path := filepath.Join(j.out, filepath.FromSlash(c.file))
		damage := os.Remove
		if c.by != 0 {
			damage = func(path string) error { return resize(path, c.by) }
		}
		if err := damage(path); err != nil {
			t.Fatal(err)
		}
		if r := j.mustRun(t); r.NothingToDo || r.Done != c.rows {
			t.Errorf("%s: %d rows computed, want %d; nothing to do: %v", c.file, r.Done, c.rows, r.NothingToDo)
		}
	}
	if r := j.mustRun(t); !r.NothingToDo {
		t.Errorf("there is something to do after all was mended: %d rows of %+v", r.Done, r.Plan)
	}
	j.sameAs(t, j.elsewhere(t))
}

// TestDamagedVideoOfAMissingTable: a video that is damaged, seen or unseen, is replaced when its row is computed again
// for another reason: a table of tensors that is gone, or a damaged ledger.
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
	whole := newJob(t, diskTable)
	whole.sets = []string{"output.rows_per_file=2"}
	whole.mustRun(t)
	want := mustRead(t, whole.out)
	for what, damage := range map[string][2]func(path string) error{
		"a cut video": {cut, nil}, "a cut poster": {nil, cut}, "a flipped bit": {flip, flip}, "a removed video": {os.Remove, flip},
	} {
		for _, cause := range []string{"tables/latents/00000.parquet", "ledger"} {
			j := whole.elsewhere(t)
			must(t, os.CopyFS(j.out, os.DirFS(whole.out)))
			keyOfB, err := hex.DecodeString(strings.TrimSuffix(filepath.Base(videoFiles(t, j.out, "b")[0]), ".mp4"))
			must(t, err)
			for i, damage := range damage {
				if damage != nil {
					must(t, damage(filepath.Join(j.out, filepath.FromSlash(videoFiles(t, j.out, "b")[i]))))
				}
			}
			rows := int64(2)
			if cause == "ledger" {
				path, data, _ := oneSegment(t, j.out)
				data[bytes.Index(data, keyOfB)] ^= 1
				must(t, os.WriteFile(path, data, 0o644))
				rows = 1
			} else {
				must(t, os.Remove(filepath.Join(j.out, cause)))
			}
			if r := j.mustRun(t); r.Done != rows || r.Totals.Failed != 0 {
				t.Errorf("%s, %s: %d computed, want %d; %+v", what, cause, r.Done, rows, r.Totals)
			}
			if wrong := want.diff(mustRead(t, j.out)); wrong != nil {
				t.Errorf("%s, %s: differs from a new run:\n%s", what, cause, strings.Join(wrong, "\n"))
			}
			if r := j.mustRun(t); !r.NothingToDo {
				t.Errorf("%s, %s: there is something to do after all was mended: %+v", what, cause, r.Totals)
			}
		}
	}
}

// TestForeignVideoIsKept: a file under a video's name that no earlier run wrote is refused, and its row alone fails.
func TestForeignVideoIsKept(t *testing.T) {
	j := newJob(t, diskTable)
	fresh := j.elsewhere(t)
	fresh.mustRun(t)
	file := filepath.Join(j.out, filepath.FromSlash(videoFiles(t, fresh.out, "c")[0]))
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte("theirs"), 0o644))
	for _, retry := range []bool{false, true} {
		again := j
		again.opts.Retry = retry
		if r := again.mustRun(t); r.Totals.Failed != 1 || r.Totals.Done != 4 {
			t.Errorf("%+v", r.Totals)
		}
		if data, err := os.ReadFile(file); err != nil || string(data) != "theirs" {
			t.Errorf("their file is %.20q, %v", data, err)
		}
	}
}

// TestDamagedBeforeSizesWereNoted: outputs of a version that noted no sizes of posters and tables are up to date.
func TestDamagedBeforeSizesWereNoted(t *testing.T) {
	j := newJob(t, diskTable)
	j.sets = []string{"output.write=[video]"}
	j.mustRun(t)
	summary := filepath.Join(j.out, "summary.json")
	text, err := os.ReadFile(summary)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), `"files": {`)
	_, rest, closed := strings.Cut(rest, "},")
	if !found || !closed {
		t.Fatalf("no files in %s", text)
	}
	if err := os.WriteFile(summary, []byte(head+rest), 0o644); err != nil {
		t.Fatal(err)
	}
	withoutPosterSizes(t, j.out)
	must(t, os.RemoveAll(filepath.Join(j.out, "runs")))
	if err := resize(filepath.Join(j.out, filepath.FromSlash(videoFiles(t, j.out, "c")[1])), 1); err != nil {
		t.Fatal(err)
	}
	if r := j.mustRun(t); !r.NothingToDo {
		t.Errorf("%+v", r)
	}
}

// withoutPosterSizes writes the ledger of an output as an earlier version did.
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
