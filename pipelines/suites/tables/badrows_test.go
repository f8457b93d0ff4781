package tables

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// goodRows surround a bad row in a table of csv.
var goodRows = [2]string{
	"id,prompt,seed,width\na,a red circle moves left,,\nb,a blue square moves up,,\n",
	"c,a green triangle,,\nd,,,\n",
}

// oneBad is a job whose table has one bad row, and the row that the failures table must have.
type oneBad struct {
	name                  string
	row                   string // the bad row, which stands between goodRows
	class, stage, message string // of the failure; message is a regular expression
}

// tableRow lists rows that are rejected before anything is computed.
var tableRow = []oneBad{
	{"invalid UTF-8", "bad,a red \xff circle,,", "row", "read", `prompts\.csv:4: prompt: not valid UTF-8`},
	{"a prompt of 1 MiB", "bad," + strings.Repeat("a red circle ", 1<<20/13) + ",,", "row", "read",
		`prompts\.csv:4: prompt: 10\d{5} bytes are too long, at most 65536 are read`},
	{"a seed that is not a number", "bad,a red circle,NaN,", "row", "read",
		`prompts\.csv:4: seed: "NaN" is not a whole number; give a whole number from 0 .* or leave it empty`},
	{"a missing value", "bad", "row", "read", `prompts\.csv:4: the row has 1 values and the header 4`},
	{"a quote too many", `bad,"a red circle,,`, "row", "read",
		`prompts\.csv:4: a quote that opens here is not closed`},
	{"a size that no model supports", "bad,a red circle,,-16", "row", "read",
		`prompts\.csv:4: width: -16 is out of range`},
	{"a size that this model does not support", "bad,a red circle,,40", "row", "denoise",
		`width is 40: give a multiple of 16, such as 48`},
}

// TestBadRowOfTheTable: an invalid row is a row of the failures table, and the results of the others are equal to those without
// it.
func TestBadRowOfTheTable(t *testing.T) {
	want := withoutBadRow(t, nil, "")
	for _, c := range tableRow {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, want, jobtest.NewJob(t, goodRows[0]+c.row+"\n"+goodRows[1]))
		})
	}
}

// TestBadRowOfJSON: mistakes that only JSON can have (a missing column, a value of another type, half a line) fail their rows.
func TestBadRowOfJSON(t *testing.T) {
	j := jobtest.Job{Out: filepath.Join(t.TempDir(), "out"), Prompts: jobtest.WriteTable(t, "prompts.jsonl", `{"prompt": "a red circle"}
{"id": "b", "seed": 1}
{"id": "c", "prompt": null}
{"id": "d", "prompt": 7}
{"id": "e", "prompt": "a", "seed": NaN}
{"id": "f", "prompt": "a", "seed": 1.5}
{"id": "g", "prompt": "a", "height": {"px": 16}}
{"id": "h", "prompt": "a
{"prompt": ""}
`)}
	r := j.MustRun(t)
	if r.Totals.Done != 2 || r.Totals.Failed != 7 {
		t.Errorf("got totals %+v", r.Totals)
	}
	for i, f := range jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures") {
		line := fmt.Sprintf("%s:%d: ", j.Prompts, i+2)
		if f.Stage != "read" || f.Class != "row" || !strings.HasPrefix(f.Message, line) ||
			accidental.MatchString(strings.TrimPrefix(f.Message, line)) {
			t.Errorf("row %d failed in stage %q with class %q and %q", i+2, f.Stage, f.Class, f.Message)
		}
	}
}

// withoutBadRow runs a job with the good rows alone and returns its output.
func withoutBadRow(t *testing.T, s []stages.Spec, list string) jobtest.Output {
	t.Helper()
	j := jobtest.NewJob(t, goodRows[0]+goodRows[1])
	j.Specs, j.Stages = s, list
	if r := j.MustRun(t); r.Totals.Done != 4 || r.Totals.Failed != 0 {
		t.Fatalf("with the good rows alone, got totals %+v", r.Totals)
	}
	return jobtest.MustRead(t, j.Out)
}

// accidental matches texts that a message must not contain, because they differ between runs.
var accidental = regexp.MustCompile(`0x[0-9a-f]+|goroutine|\.go:\d|\d\d:\d\d:\d\d|20\d\d-\d\d`)

// check runs the job twice and checks the failure and the other rows.
func (c oneBad) check(t *testing.T, want jobtest.Output, j jobtest.Job) {
	t.Helper()
	r := j.MustRun(t)
	if r.Totals.Failed != 1 || r.Totals.Done != 4 || r.Totals.Pending != 0 {
		t.Errorf("got totals %+v", r.Totals)
	}
	got := jobtest.MustRead(t, j.Out)
	if got.Files["index.html"] == want.Files["index.html"] {
		t.Error("the gallery does not count the failed row")
	}
	delete(got.Files, "index.html")
	expected := jobtest.Output{Files: map[string]string{}, Rows: map[string][]string{}}
	for name, sum := range want.Files {
		if name != "index.html" {
			expected.Files[name] = sum
		}
	}
	for table, rows := range want.Rows {
		expected.Rows[table] = rows
	}
	expected.Rows["failures"] = got.Rows["failures"]
	if wrong := expected.Diff(got); wrong != nil {
		t.Errorf("the results of the good rows changed:\n%s", strings.Join(wrong, "\n"))
	}
	failures := jobtest.ReadRows[schemas.FailureRow](t, j.Out, "failures")
	if len(failures) != 1 {
		t.Fatalf("the failures table has %d rows, want 1", len(failures))
	}
	f := failures[0]
	named := f.ID == "bad" || strings.Contains(c.row, `"`) // a row that is not valid csv has no id
	if !named || f.Class != c.class || f.Stage != c.stage || f.Source != j.Prompts+":4" {
		t.Errorf("failure of id %q, class %q, stage %q, source %q; want bad, %q, %q, %s:4",
			f.ID, f.Class, f.Stage, f.Source, c.class, c.stage, j.Prompts)
	}
	if !regexp.MustCompile(c.message).MatchString(f.Message) || len(f.Prompt) > 2*schemas.MaxFailurePromptBytes {
		t.Errorf("got message %q, want %s; the prompt has %d bytes", f.Message, c.message, len(f.Prompt))
	}
	if bad := accidental.FindString(f.Message); bad != "" {
		t.Errorf("message %q contains %q, which differs between runs", f.Message, bad)
	}
	again := j.Elsewhere(t)
	again.MustRun(t)
	second := jobtest.MustRead(t, again.Out)
	if wrong := jobtest.DiffRows("failures", got.Rows["failures"], second.Rows["failures"]); wrong != nil {
		t.Errorf("the same failure has two different messages: %s", wrong)
	}
}

// TestBadRowInAStage: one row of a batch makes a stage fail in every possible way.
func TestBadRowInAStage(t *testing.T) {
	without := map[string]jobtest.Output{} // outputs of the good rows, by the stages of the job
	for _, c := range []struct {
		oneBad
		list string // with the stage "sick"
		run  func(batch []*stages.Element, bad int) error
	}{
		{oneBad{"an error", "", "row", "sick", "^it hurts$"}, jobtest.SickAfterText,
			func(b []*stages.Element, bad int) error {
				b[bad].Fail("sick", fault.Row(errors.New("it hurts")))
				return nil
			}},
		{oneBad{"an error of the batch", "", "row", "sick", "^it hurts$"}, jobtest.SickAfterLatents,
			func([]*stages.Element, int) error { return errors.New("it hurts") }},
		{oneBad{"a panic", "", "row", "sick", `^panic: runtime error: index out of range \[7\] with length 2$`},
			jobtest.SickAfterFrames,
			func(b []*stages.Element, bad int) error { _ = b[bad].Text.Embedding.Shape[7]; return nil }},
		{oneBad{"a nil pointer", "", "row", "sick", "^panic: runtime error: invalid memory address or nil pointer"},
			jobtest.SickLast,
			func(b []*stages.Element, bad int) error { b[bad].Frames = nil; _ = b[bad].Frames.Width; return nil }},
		{oneBad{"a panic with a value", "", "row", "sick", `^panic: a value of type \*tables.secret$`},
			jobtest.SickFirst,
			func([]*stages.Element, int) error { panic(&secret{new(int)}) }},
		{oneBad{"a panic after others were done", "", "row", "sick", "^panic: too late"},
			jobtest.SickAfterText,
			func(b []*stages.Element, bad int) error {
				for i, e := range b {
					if i != bad {
						e.Text = nil // removes the input of the stage, which a stage may do
						e.Readings = map[string]string{"read": "back"}
					}
				}
				panic("too late")
			}},
		{oneBad{"a latent that is not a number", "", "row", "sick", "value 3 of the latents is NaN"},
			jobtest.SickAfterLatents,
			func(b []*stages.Element, bad int) error { b[bad].Latents.Data[3] = float32(math.NaN()); return nil }},
		{oneBad{"an infinite embedding", "", "row", "sick", "value 0 of the text embedding is .Inf"},
			jobtest.SickAfterText,
			func(b []*stages.Element, bad int) error {
				b[bad].Text.Embedding.Data[0] = float32(math.Inf(1))
				return nil
			}},
		{oneBad{"a result that is missing", "", "row", "sick", "the stage gave no frames"},
			jobtest.SickAfterFrames,
			func(b []*stages.Element, bad int) error { b[bad].Frames = nil; return nil }},
		{oneBad{"a world that does not heal", "", "retry", "sick", "^no answer \\(3 tries\\)$"},
			jobtest.SickAfterFrames,
			func([]*stages.Element, int) error { return fault.Retry(errors.New("no answer")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := jobtest.Specs(jobtest.Passive("sick", func(_ context.Context, batch []*stages.Element) error {
				for i, e := range batch {
					if e.Row.ID == "bad" {
						return c.run(batch, i)
					}
				}
				return nil
			}))
			j := jobtest.NewJob(t, goodRows[0]+"bad,a bad row,,\n"+goodRows[1])
			j.Specs, j.Stages = s, c.list
			if _, ok := without[c.list]; !ok {
				without[c.list] = withoutBadRow(t, s, c.list)
			}
			c.check(t, without[c.list], j)
		})
	}
}

type secret struct{ address *int }

// TestTemporaryErrors: an error of class retry is not a failure if a later attempt succeeds.
func TestTemporaryErrors(t *testing.T) {
	var attempts atomic.Int64
	s := jobtest.Specs(jobtest.Passive("sick", func(_ context.Context, batch []*stages.Element) error {
		if attempts.Add(1) < 3 {
			return fault.Retry(errors.New("no answer"))
		}
		return nil
	}))
	const list = jobtest.SickAfterFrames
	j := jobtest.NewJob(t, goodRows[0]+goodRows[1])
	j.Specs, j.Stages = s, list
	if r := j.MustRun(t); r.Totals.Done != 4 || attempts.Load() != 3 {
		t.Errorf("got totals %+v after %d attempts", r.Totals, attempts.Load())
	}
	if wrong := withoutBadRow(t, s, list).Diff(jobtest.MustRead(t, j.Out)); wrong != nil {
		t.Errorf("the output differs from that of a run without errors:\n%s", strings.Join(wrong, "\n"))
	}
}

// TestFatalErrorStopsAndIsResumed: after a fatal error, published rows count, the others are pending,
// and the next run computes them.
func TestFatalErrorStopsAndIsResumed(t *testing.T) {
	const n = 300 // many rows, because other batches go on until the engine knows the error
	var healthy atomic.Bool
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "prompts.csv", strings.ReplaceAll(jobtest.ManyRows(n), "poison", "fine")),
		Out: filepath.Join(t.TempDir(), "out"), Stages: "[toy, sick]",
		Sets: []string{"output.write=[latents]", "resources.batch_size=1"}}
	j.Specs = jobtest.Specs(jobtest.ToySpec(), jobtest.Passive("sick", func(_ context.Context, batch []*stages.Element) error {
		if healthy.Load() {
			return nil
		}
		if strings.HasSuffix(batch[0].Row.Prompt, " 49") {
			return fault.Fatal(errors.New("the checkpoint is broken"))
		}
		time.Sleep(2 * time.Millisecond)
		return nil
	}))
	r, err := j.Run()
	if fault.ExitCode(err) != fault.ExitFatal || fmt.Sprint(err) != "sick: the checkpoint is broken" {
		t.Errorf("got exit code %d, error %q", fault.ExitCode(err), err)
	}
	if r.Totals.Done < 30 || r.Totals.Pending < 10 || r.Totals.Failed != 0 {
		t.Errorf("totals %+v, want most of the 49 rows before the error done", r.Totals)
	}
	if rows := jobtest.ReadRows[schemas.LatentRow](t, j.Out, "latents"); int64(len(rows)) != r.Totals.Done {
		t.Errorf("the table of latents has %d rows, but %d are done", len(rows), r.Totals.Done)
	}
	healthy.Store(true)
	j.Computes(t, r.Totals.Pending)
	j.SameAs(t, j.Elsewhere(t))
}

// TestTooManyFailuresStopTheJob: a tenth of the rows fail, but only five percent are allowed. The last rows wait until the
// job stops.
func TestTooManyFailuresStopTheJob(t *testing.T) {
	const n = 800
	var seen atomic.Int64
	var resumed atomic.Bool
	slow := jobtest.Passive("slow", func(ctx context.Context, batch []*stages.Element) error {
		if seen.Add(int64(len(batch))) > n/2 && !resumed.Load() {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Minute):
				t.Error("the job is stopping, but the context of the running stage is not cancelled")
			}
		}
		return nil
	})
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "prompts.csv", jobtest.ManyRows(n)), Out: filepath.Join(t.TempDir(), "out"),
		Specs: jobtest.Specs(jobtest.ToySpec(), slow), Stages: "[toy, slow]",
		Sets: []string{"output.write=[latents]", "resources.batch_size=8"}}
	r, err := j.Run()
	if fault.ExitCode(err) != fault.ExitFatal || !strings.Contains(fmt.Sprint(err), "on_error.stop_after") ||
		!strings.Contains(fmt.Sprint(err), " rows failed") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got exit code %d, error %q", fault.ExitCode(err), err)
	}
	if r.Totals.Pending == 0 || r.Totals.Done+r.Totals.Failed < 200 || r.Totals.Rows != n {
		t.Errorf("got totals %+v, want some rows pending and at least 200 settled", r.Totals)
	}
	resumed.Store(true)
	j.Sets = append(j.Sets, "on_error.stop_after=50%")
	r = j.MustRun(t)
	if r.Totals.Done != n*9/10 || r.Totals.Failed != n/10 || r.Totals.Pending != 0 {
		t.Errorf("a run that allows more failures: got totals %+v", r.Totals)
	}
}

// TestFewFailuresDoNotStopTheJob: bad rows fail at once and good rows are done late. This must not count as too many
// failures.
func TestFewFailuresDoNotStopTheJob(t *testing.T) {
	const n = 20_000
	var b strings.Builder
	b.WriteString("prompt,seed\n")
	for i := range n {
		seed := ""
		if i%25 == 24 {
			seed = "NaN"
		}
		fmt.Fprintf(&b, "good %d,%s\n", i, seed)
	}
	j := jobtest.Job{Prompts: jobtest.WriteTable(t, "prompts.csv", b.String()), Out: filepath.Join(t.TempDir(), "out"),
		Specs: jobtest.Specs(jobtest.ToySpec()), Stages: "[toy]", Sets: []string{"output.write=[latents]"}}
	if r := j.MustRun(t); r.Totals.Failed != n/25 || r.Totals.Done != n-n/25 {
		t.Errorf("got totals %+v", r.Totals)
	}
}
