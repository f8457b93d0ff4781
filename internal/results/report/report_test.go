package report

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/results/tensors"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// input is a table of rows. The row "bad" cannot be computed.
type input []string

// element returns the row of a name, in the form after the job's rules were applied.
func element(name string, line int) *stages.Element {
	seed := int64(len(name))
	row := schemas.PromptRow{ID: name, Prompt: "prompt " + name, Seed: &seed, Width: 16, Height: 16,
		NumFrames: 2, FPS: 8, Extra: fmt.Sprintf(`{"color":"red","n":%d}`, len(name)), Source: fmt.Sprint("x.csv:", line)}
	e := &stages.Element{Row: row, Given: row, Key: sha256.Sum256([]byte(name))}
	if name == "bad" {
		e.Wrong = map[string]string{"width": "many", "seed": "1e400", "prompt": "no parameter"}
		e.Fail("read", fault.Row(fmt.Errorf("cannot be read")))
	}
	return e
}

func (in input) rows(context.Context) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		for i, name := range in {
			if !yield(element(name, i+1), nil) {
				return
			}
		}
	}
}

// newJob returns a report of videos and latents on a new output.
func newJob(t *testing.T, in input) *Job {
	t.Helper()
	dir, err := dir.Open(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	t.Cleanup(func() { dir.Close() })
	l, err := ledger.Open(t.Context(), dir)
	must(t, err)
	j := &Job{Title: "test", Rows: in.rows, Facts: Facts{Model: "tiny", Weights: "w", Class: "cpu", Version: "v1"},
		Keep: map[stages.Kind]bool{stages.KindVideo: true, stages.KindLatents: true}}
	j.on(dir, l)
	t.Cleanup(func() { j.Tensors.Close(); l.Close() })
	return j
}

// on attaches the report to an output.
func (j *Job) on(s store.Store, l *ledger.Ledger) {
	j.Output, j.Ledger = &fingerprints.Output{Store: s}, l
	j.Tensors = &tensors.Home{Output: j.Output, Ledger: l}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// settle commits a result for each name: those with an x failed, the others have a latent of n bytes.
func (j *Job) settle(t *testing.T, n int, names ...string) {
	t.Helper()
	var recs []ledger.Record
	for _, name := range names {
		e := element(name, 0)
		r := ledger.Record{Key: ledger.Key(e.Key), Status: ledger.Done}
		var result schemas.Result
		if strings.Contains(name, "x") {
			r.Status = ledger.Failed
			result.Failure = &schemas.FailureFacts{Class: "row", Stage: "denoise", Message: "no " + name}
		} else {
			data := slices.Repeat([]byte(name + "****")[:4], n/4)
			sum := sha256.Sum256(data)
			r.Blobs = []ledger.Blob{{Name: schemas.BlobLatents, Data: data}}
			result = schemas.Result{LatentsShape: []int{1, 1, 1, n / 4}, LatentsSHA256: hex.EncodeToString(sum[:]),
				Video:    &schemas.VideoFile{Path: "videos/" + name + ".mp4"},
				Readings: map[string]string{"color": map[bool]string{true: "red", false: "blue"}[len(name) == 1]}}
		}
		var err error
		r.Row, err = json.Marshal(result)
		must(t, err)
		recs = append(recs, r)
	}
	must(t, j.Ledger.Commit(t.Context(), recs))
}

func (j *Job) written(t *testing.T) Totals {
	t.Helper()
	totals, err := j.Write(t.Context())
	must(t, err)
	return totals
}

// ids lists the rows of a table, in order, and its files.
func ids[T schemas.Row](t *testing.T, j *Job, name string, id func(T) string) (rows, files []string) {
	t.Helper()
	files, err := store.Names(t.Context(), j.Output.Store, "tables/"+name+"/", store.Flat)
	must(t, err)
	for _, f := range files {
		for row, err := range typed.Read[T](filepath.Join(j.Output.Store.URL(), f), true) {
			must(t, err)
			rows = append(rows, id(row))
		}
	}
	return rows, files
}

func (j *Job) latentIDs(t *testing.T) (rows, files []string) {
	t.Helper()
	return ids(t, j, "latents", func(r schemas.LatentRow) string {
		want := strings.Repeat((r.ID + "****")[:4], len(r.VAELatentBytes)/4)
		if want != string(r.VAELatentBytes) {
			t.Errorf("the latent of %s is %.20q", r.ID, r.VAELatentBytes)
		}
		return r.ID
	})
}

func TestReport(t *testing.T) {
	j := newJob(t, input{"a", "bad", "b", "xx", "a", "new", "cc"})
	j.settle(t, 400, "a", "b", "xx", "cc", "stale")
	totals := j.written(t)
	if totals.Rows != 7 || totals.Done != 4 || totals.Failed != 2 || totals.Pending != 1 {
		t.Errorf("totals %+v", totals)
	}
	if got := totals.Agreement["color"]; got != (Agreement{3, 4}) || totals.Agreement["all"] != got ||
		len(totals.Agreement) != 2 {
		t.Errorf("agreement %+v", totals.Agreement)
	}
	d := j.Digest()
	for i, name := range []string{"a", "bad", "b", "xx", "a", "new", "cc"} {
		e, status := element(name, i+1), map[string]ledger.Status{"bad": ledger.Failed, "xx": ledger.Failed,
			"new": ledger.Absent}
		s, special := status[name]
		if !special {
			s = ledger.Done
		}
		d.Add(e, s)
	}
	if totals.Input != d.Sum() {
		t.Error("the report and the plan have different digests of the same input")
	}
	videos, _ := ids(t, j, "videos", func(r schemas.VideoRow) string {
		return r.ID + r.Model + r.Class + r.LatentbeamVersion
	})
	if got := fmt.Sprint(videos); got != "[atinycpuv1 btinycpuv1 atinycpuv1 cctinycpuv1]" {
		t.Errorf("videos %s", got)
	}
	failures, _ := ids(t, j, "failures", func(r schemas.FailureRow) string {
		return fmt.Sprint(r.ID, "|", r.Stage, "|", r.Message, "|", r.Source)
	})
	if got := fmt.Sprint(failures); got != "[bad|read|cannot be read|x.csv:2 xx|denoise|no xx|x.csv:4]" {
		t.Errorf("failures %s", got)
	}
	if rows, _ := j.latentIDs(t); fmt.Sprint(rows) != "[a b a cc]" {
		t.Errorf("latents %v", rows)
	}
	page, err := store.ReadFile(t.Context(), j.Output.Store, "index.html")
	if err != nil || !strings.Contains(string(page), "videos/cc.mp4") {
		t.Errorf("gallery: %v", err)
	}
}

// TestFilesAreCut: files have at most rows_per_file rows, and files of an earlier, longer table are removed.
func TestFilesAreCut(t *testing.T) {
	names := strings.Split("a b c d e f g", " ")
	j := newJob(t, names)
	j.RowsPerFile = 3
	j.settle(t, 40, names...)
	for n, want := range map[int]int{7: 3, 6: 2, 4: 2, 3: 1, 1: 1, 0: 1} {
		j.Rows = input(names[:n]).rows
		j.written(t)
		rows, files := j.latentIDs(t)
		if len(rows) != n || len(files) != want || !slices.Equal(rows, names[:n]) {
			t.Errorf("%d rows: %v in %v", n, rows, files)
		}
		if rows, files := ids(t, j, "videos", func(r schemas.VideoRow) string { return r.ID }); len(rows) != n ||
			len(files) != want {
			t.Errorf("%d rows: videos %v in %v", n, rows, files)
		}
	}
}

// TestUnchangedTensorsAreNotWritten: only files with a changed row are written again.
func TestUnchangedTensorsAreNotWritten(t *testing.T) {
	names := strings.Split("a b c d e f", " ")
	j := newJob(t, names)
	j.RowsPerFile = 2
	j.settle(t, 40, append(names, "z")...)
	j.written(t)
	stat := func() (infos []fs.FileInfo) {
		t.Helper()
		for i := range 3 {
			info, err := os.Stat(store.Address(j.Output.Store.URL(), j.place().table("latents", i)))
			must(t, err)
			infos = append(infos, info)
		}
		return infos
	}
	for _, c := range []struct {
		what    string
		change  func()
		written [3]bool
	}{
		{"no change", func() {}, [3]bool{}},
		{"a failing row before all others", func() {
			j.Rows = func(ctx context.Context) iter.Seq2[*stages.Element, error] {
				return input(append([]string{"bad"}, names...)).rows(ctx)
			}
		}, [3]bool{}},
		{"another fourth row", func() { j.Rows = input{"a", "b", "c", "z", "e", "f"}.rows }, [3]bool{false, true, false}},
		{"another version", func() { j.Version = "v2" }, [3]bool{true, true, true}},
	} {
		before := stat()
		c.change()
		j.written(t)
		for i, info := range stat() {
			if written := !os.SameFile(info, before[i]); written != c.written[i] {
				t.Errorf("%s: file %d was written: %v", c.what, i, written)
			}
		}
	}
}

// TestCompact: tensors that the tables have are removed from the ledger if they are a large part of it. Other tensors stay.
func TestCompact(t *testing.T) {
	j := newJob(t, input{"a", "b", "c"})
	j.settle(t, 40, "a")
	j.settle(t, 40_000, "b", "c", "stale")
	tensors := func() (total int64) {
		t.Helper()
		must(t, j.Ledger.Each(t.Context(), func(_ ledger.Ref, r ledger.Record) error {
			for _, b := range r.Blobs {
				total += b.Size
			}
			return nil
		}))
		return total
	}
	must(t, j.Tensors.TruncateLog(t.Context())) // without tables
	if got := tensors(); got != 120_040 {
		t.Errorf("%d bytes are left without tables", got)
	}
	j.written(t)
	must(t, j.Tensors.TruncateLog(t.Context()))
	if got := tensors(); got != 40_000 {
		t.Errorf("%d bytes are left, want those of the row that no table has", got)
	}
	j.settle(t, 4, "d") // too few bytes to be worth a compaction
	j.Rows = input{"a", "b", "c", "d", "stale"}.rows
	segments := j.Ledger.Segments()
	j.written(t)
	j.Rows = input{"a", "b", "c", "d"}.rows
	j.written(t) // stale goes back into the ledger
	if got := tensors(); got != 40_004 {
		t.Errorf("%d bytes are in the ledger", got)
	}
	must(t, j.Tensors.TruncateLog(t.Context()))
	if j.Ledger.Segments() < segments {
		t.Error("the ledger was compacted, although it has no tensors to remove")
	}
	j.Rows = input{"stale", "d", "c", "b", "a"}.rows
	j.written(t)
	if rows, _ := j.latentIDs(t); fmt.Sprint(rows) != "[stale d c b a]" {
		t.Errorf("latents %v", rows)
	}
}

// TestReportFails: a report returns an error instead of writing something wrong.
func TestReportFails(t *testing.T) {
	j := newJob(t, input{"a"})
	must(t, j.Ledger.Commit(t.Context(), []ledger.Record{
		{Key: ledger.Key(element("a", 0).Key), Status: ledger.Done, Row: []byte("not JSON")}}))
	if _, err := j.Write(t.Context()); err == nil || !strings.Contains(err.Error(), "read ledger record") {
		t.Errorf("a damaged record: %v", err)
	}
	must(t, j.Ledger.Commit(t.Context(), []ledger.Record{
		{Key: ledger.Key(element("a", 0).Key), Status: ledger.Done, Row: []byte(`{"latents_shape":[1,1,1,1]}`)}}))
	_, err := j.Write(t.Context())
	if err == nil || !strings.Contains(err.Error(), "neither in the ledger nor in a table") {
		t.Errorf("a tensor that is in no file: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j.Rows = func(ctx context.Context) iter.Seq2[*stages.Element, error] {
		return func(yield func(*stages.Element, error) bool) { yield(nil, ctx.Err()) }
	}
	if _, err := j.Write(ctx); err == nil {
		t.Error("an input that ends early makes a report")
	}
}

func TestSummary(t *testing.T) {
	j := newJob(t, nil)
	for want, s := range map[string]Summary{
		Complete: {Totals: Totals{Done: 1}}, Limited: {Limit: 3},
		Incomplete: {Limit: 3, Totals: Totals{Pending: 1}},
	} {
		s.Input = "abc"
		must(t, j.WriteSummary(t.Context(), s))
		got, err := ReadSummary(t.Context(), j.Output.Store, j.SummaryName())
		if err != nil || got.State != want || got.Input != "abc" || got.Class != "cpu" || got.Weights != "w" {
			t.Errorf("%+v, %v, want %s", got, err, want)
		}
	}
	must(t, j.Output.Store.Replace(t.Context(), "broken.json", func(w io.Writer) error {
		_, err := w.Write([]byte("{"))
		return err
	}))
	if _, err := ReadSummary(t.Context(), j.Output.Store, "broken.json"); err == nil {
		t.Error("an incomplete summary was read")
	}
}

// TestDigestTellsRowsApart: each change of a row, of its outcome or of the job changes the digest.
func TestDigestTellsRowsApart(t *testing.T) {
	seed := int64(1)
	guidance := 0.0
	changes := map[string]func(j *Job, e *stages.Element, s *ledger.Status){
		"nothing":     func(*Job, *stages.Element, *ledger.Status) {},
		"prompt":      func(_ *Job, e *stages.Element, _ *ledger.Status) { e.Row.Prompt += "x" },
		"given":       func(_ *Job, e *stages.Element, _ *ledger.Status) { e.Given.Prompt += "x" },
		"id":          func(_ *Job, e *stages.Element, _ *ledger.Status) { e.Row.ID, e.Row.Prompt = "ap", "rompt a" },
		"seed":        func(_ *Job, e *stages.Element, _ *ledger.Status) { *e.Row.Seed, e.Given.Seed = 5, &seed },
		"no seed":     func(_ *Job, e *stages.Element, _ *ledger.Status) { e.Given.Seed = nil },
		"guidance":    func(_ *Job, e *stages.Element, _ *ledger.Status) { e.Row.GuidanceScale = &guidance },
		"noise":       func(_ *Job, e *stages.Element, _ *ledger.Status) { e.Row.Noise = "x" },
		"given noise": func(_ *Job, e *stages.Element, _ *ledger.Status) { e.Given.Noise = "x" },
		"fps":         func(_ *Job, e *stages.Element, _ *ledger.Status) { e.Row.FPS = 8.5 },
		"source":      func(_ *Job, e *stages.Element, _ *ledger.Status) { e.Given.Source = "y.csv:1" },
		"failure":     func(_ *Job, e *stages.Element, _ *ledger.Status) { e.Fail("read", fmt.Errorf("no")) },
		"key":         func(_ *Job, e *stages.Element, _ *ledger.Status) { e.Key[31]++ },
		"status":      func(_ *Job, _ *stages.Element, s *ledger.Status) { *s = ledger.Failed },
		"version":     func(j *Job, _ *stages.Element, _ *ledger.Status) { j.Version = "v2" },
		"write":       func(j *Job, _ *stages.Element, _ *ledger.Status) { j.Keep[stages.KindText] = true },
		"row count":   func(j *Job, _ *stages.Element, _ *ledger.Status) { j.RowsPerFile = 5 },
	}
	seen := map[string]string{}
	for what, change := range changes {
		j, e, status := newJob(t, nil), element("a", 1), ledger.Done
		change(j, e, &status)
		d := j.Digest()
		d.Add(e, status)
		if other, ok := seen[d.Sum()]; ok {
			t.Errorf("%s and %s have the same digest", what, other)
		}
		seen[d.Sum()] = what
	}
}
