package pipelines_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/storage/store/storetest"
	"latentbeam/pipelines"
	"latentbeam/schemas/fault"
)

// inMemory returns the job with its output in the store m.
func inMemory(j jobtest.Job, m *storetest.Memory) jobtest.Job {
	j.Opts.OutputIn(m.Open, m.Existing)
	return j
}

// storeStep is a run of a job on several outputs, after a change of the outputs.
type storeStep struct {
	what   string
	change func(s store.Store) error
	job    func(j *jobtest.Job)
	check  func(r pipelines.Result) bool
}

// TestAnyStore: a job writes the same objects to a directory and to a store in memory, whatever they contain before. This
// proves that a job writes only through the store.
func TestAnyStore(t *testing.T) {
	rows := strings.SplitAfter(jobtest.SeamTable, "\n")
	table := jobtest.WriteTable(t, "all.csv", jobtest.SeamTable)
	fewer := jobtest.WriteTable(t, "fewer.csv", rows[0]+strings.Join(rows[2:], ""))
	done := func(n int64) func(pipelines.Result) bool {
		return func(r pipelines.Result) bool { return r.Done == n && !r.NothingToDo }
	}
	steps := []storeStep{
		{what: "some rows", job: func(j *jobtest.Job) { j.Opts.Limit = 3 }, check: done(3)},
		{what: "all rows", check: done(4)},
		{what: "nothing to do", check: func(r pipelines.Result) bool { return r.NothingToDo }},
		{what: "files that were copied", change: func(s store.Store) error { return rewriteFirst(t, s, "videos/", 0) },
			check: func(r pipelines.Result) bool { return r.NothingToDo }},
		{what: "a video with another bit", change: func(s store.Store) error { return rewriteFirst(t, s, "videos/", 1) }, check: done(1)},
		{what: "a video and a table are gone", change: func(s store.Store) error {
			return errors.Join(jobtest.RemoveFirst(t, s, "videos/"), jobtest.RemoveFirst(t, s, "tables/latents/"))
		}, check: func(r pipelines.Result) bool { return r.Done > 0 && r.Done < 5 }},
		{what: "rows in other files, tensors in tables alone", job: func(j *jobtest.Job) { j.Prompts = fewer }, check: done(0)},
		{what: "rows moved to later files", check: done(0)},
		{what: "other files", job: func(j *jobtest.Job) { j.Prompts, j.Sets = fewer, []string{"output.rows_per_file=3"} }, check: done(0)},
		{what: "less of it", job: func(j *jobtest.Job) { j.Sets = []string{"output.write=[latents]"} }, check: done(0)},
	}
	memory := storetest.NewMemory()
	base := jobtest.Job{Prompts: table, Sets: []string{"output.rows_per_file=2"}}
	directory, nowhere := base, inMemory(base, memory)
	directory.Out, nowhere.Out = filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "out")
	onDisk, err := dir.Open(directory.Out)
	jobtest.Must(t, err)
	defer onDisk.Close()
	inMemory, err := memory.Open(t.Context(), nowhere.Out)
	jobtest.Must(t, err)
	for _, step := range steps {
		want := step.run(t, directory, onDisk)
		got := step.run(t, nowhere, inMemory)
		if !maps.Equal(want, got) || len(want) < 3 {
			t.Errorf("%s: %d objects in the directory, %d in memory\n%v\n%v", step.what, len(want), len(got), want, got)
		}
		if _, err := os.Stat(nowhere.Out); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: the directory of the output was created: %v", step.what, err)
		}
	}
}

// run changes the output, runs the job on it and returns the digests of the output's objects.
func (step storeStep) run(t *testing.T, j jobtest.Job, s store.Store) map[string]string {
	t.Helper()
	if step.change != nil {
		jobtest.Must(t, step.change(s))
	}
	if step.job != nil {
		step.job(&j)
	}
	r, err := j.Run()
	if err != nil || !step.check(r) {
		t.Fatalf("%s: the run in %s: %+v, %v", step.what, s.URL(), r, err)
	}
	return jobtest.Objects(t, s)
}

// rewriteFirst rewrites the first object with a prefix. It changes the bits flip of a byte in the middle.
func rewriteFirst(t *testing.T, s store.Store, prefix string, flip byte) error {
	names, err := store.Names(t.Context(), s, prefix, store.Deep)
	if err != nil || len(names) == 0 {
		return fmt.Errorf("%d objects start with %s, %w", len(names), prefix, err)
	}
	data, err := store.ReadFile(t.Context(), s, names[0])
	jobtest.Must(t, err)
	data[len(data)/2] ^= flip
	return s.Replace(t.Context(), names[0], func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// TestShardsInAnyStore: the shards of a job, of which the last one joins the tables, write the same output to a store in memory as to a directory.
func TestShardsInAnyStore(t *testing.T) {
	base := jobtest.Job{Prompts: jobtest.WriteTable(t, "all.csv", jobtest.SeamTable)}
	memory := storetest.NewMemory()
	directory, nowhere := base, inMemory(base, memory)
	directory.Out, nowhere.Out = filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "out")
	for shard := range 2 {
		for _, j := range []jobtest.Job{directory, nowhere} {
			j.Opts.Shard, j.Opts.Shards = shard, 2
			if r := j.MustRun(t); r.Joined != (shard == 1) {
				t.Fatalf("shard %d has joined the tables: %v, want this of the last one only", shard, r.Joined)
			}
		}
	}
	onDisk, err := dir.Open(directory.Out)
	jobtest.Must(t, err)
	defer onDisk.Close()
	inMemory, err := memory.Open(t.Context(), "")
	jobtest.Must(t, err)
	if want, got := jobtest.Objects(t, onDisk), jobtest.Objects(t, inMemory); !maps.Equal(want, got) {
		t.Errorf("in a directory\n%v\nin memory\n%v", want, got)
	}
	release, err := inMemory.Lock(t.Context(), ".lock", "somebody")
	jobtest.Must(t, err)
	defer release()
	if _, err := nowhere.Run(); fault.ExitCode(err) != fault.ExitTryAgain {
		t.Errorf("a run on an output in use: got error %v", err)
	}
}

// TestStoreOutOfReach: if a store does not answer, the run ends with an error that says to try again. Nothing is computed again because
// of it.
func TestStoreOutOfReach(t *testing.T) {
	for call, prefix := range map[string]string{
		"List": "videos/", "Open": "ledger/", "Lock": "", "Held": "", "Remove": "summary.json", "Replace": "tables/", "Put": "",
	} {
		memory := storetest.NewMemory()
		j := inMemory(jobtest.Job{Prompts: jobtest.WriteTable(t, "all.csv", jobtest.SeamTable), Out: "none"}, memory)
		s, err := memory.Open(t.Context(), "")
		jobtest.Must(t, err)
		rows := int64(7)
		if call != "Put" { // otherwise there would be nothing to put
			j.MustRun(t)
			jobtest.Must(t, s.Remove(t.Context(), "index.html")) // so that there is something to do
			rows = 0
		}
		if call == "Held" { // the job calls it to check the lock of another run
			jobtest.Must(t, s.Put(t.Context(), store.Object{Name: ".00000-of-00002-lock", Data: []byte("{}")}))
		}
		memory.Fault = func(c, name string) error {
			if c == call && strings.HasPrefix(name, prefix) {
				return fault.TryAgain(errors.New("503 Service Unavailable"))
			}
			return nil
		}
		if r, err := j.Run(); fault.ExitCode(err) != fault.ExitTryAgain || r.Done > 0 {
			t.Errorf("%s does not answer: %d rows done, error %v", call, r.Done, err)
		}
		memory.Fault = nil
		if r := j.MustRun(t); r.Done != rows || r.NothingToDo {
			t.Errorf("after %s answers again, %d rows are done, want %d", call, r.Done, rows)
		}
	}
}
