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

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/storage/store/storetest"
	"latentbeam/pipelines"
	"latentbeam/schemas/fault"
)

// in is the job with its output in memory.
func (j job) in(m *storetest.Memory) job {
	j.opts.OutputIn(m.Open, m.Existing)
	return j
}

// objects are the digests of all objects of an output but the ledger's, whose commits depend on time, and the facts
// of a run.
func objects(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for info, err := range s.List(t.Context(), "", store.Deep) {
		must(t, err)
		if strings.HasPrefix(info.Name, "ledger/") || strings.HasPrefix(info.Name, "readings/") || strings.HasPrefix(info.Name, "runs/") || isRunFact(info.Name) {
			continue
		}
		data, err := store.ReadFile(t.Context(), s, info.Name)
		must(t, err)
		out[info.Name] = digest(data)
	}
	return out
}

// storeStep is a run of one job on several outputs, after something has happened to them.
type storeStep struct {
	what   string
	change func(s store.Store) error
	job    func(j *job)
	check  func(r pipelines.Result) bool
}

// TestAnyStore: a job makes the same objects in a directory and in a store that is none, whatever is there before. It
// shows that nothing goes past the store: there is no directory.
func TestAnyStore(t *testing.T) {
	rows := strings.SplitAfter(seamTable, "\n")
	table := writeTable(t, "all.csv", seamTable)
	fewer := writeTable(t, "fewer.csv", rows[0]+strings.Join(rows[2:], ""))
	done := func(n int64) func(pipelines.Result) bool {
		return func(r pipelines.Result) bool { return r.Done == n && !r.NothingToDo }
	}
	steps := []storeStep{
		{what: "some rows", job: func(j *job) { j.opts.Limit = 3 }, check: done(3)},
		{what: "all rows", check: done(4)},
		{what: "nothing to do", check: func(r pipelines.Result) bool { return r.NothingToDo }},
		{what: "files that were copied", change: func(s store.Store) error { return rewriteFirst(t, s, "videos/", 0) },
			check: func(r pipelines.Result) bool { return r.NothingToDo }},
		{what: "a video with another bit", change: func(s store.Store) error { return rewriteFirst(t, s, "videos/", 1) }, check: done(1)},
		{what: "a video and a table are gone", change: func(s store.Store) error {
			return errors.Join(removeFirst(t, s, "videos/"), removeFirst(t, s, "tables/latents/"))
		}, check: func(r pipelines.Result) bool { return r.Done > 0 && r.Done < 5 }},
		{what: "rows in other files, tensors in tables alone", job: func(j *job) { j.prompts = fewer }, check: done(0)},
		{what: "rows moved to later files", check: done(0)},
		{what: "other files", job: func(j *job) { j.prompts, j.sets = fewer, []string{"output.rows_per_file=3"} }, check: done(0)},
		{what: "less of it", job: func(j *job) { j.sets = []string{"output.write=[latents]"} }, check: done(0)},
	}
	memory := storetest.NewMemory()
	base := job{prompts: table, sets: []string{"output.rows_per_file=2"}}
	directory, nowhere := base, base.in(memory)
	directory.out, nowhere.out = filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "out")
	onDisk, err := dir.Open(directory.out)
	must(t, err)
	defer onDisk.Close()
	inMemory, err := memory.Open(t.Context(), nowhere.out)
	must(t, err)
	for _, step := range steps {
		want := step.run(t, directory, onDisk)
		got := step.run(t, nowhere, inMemory)
		if !maps.Equal(want, got) || len(want) < 3 {
			t.Errorf("%s: %d objects in a directory, %d in memory\n%v\n%v", step.what, len(want), len(got), want, got)
		}
		if _, err := os.Stat(nowhere.out); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: something went past the store: %v", step.what, err)
		}
	}
}

// run changes the output, runs the job on it and returns what it holds then.
func (step storeStep) run(t *testing.T, j job, s store.Store) map[string]string {
	t.Helper()
	if step.change != nil {
		must(t, step.change(s))
	}
	if step.job != nil {
		step.job(&j)
	}
	r, err := j.run()
	if err != nil || !step.check(r) {
		t.Fatalf("%s, in %s: %+v, %v", step.what, s.URL(), r, err)
	}
	return objects(t, s)
}

// removeFirst removes the first object with a prefix.
func removeFirst(t *testing.T, s store.Store, prefix string) error {
	names, err := store.Names(t.Context(), s, prefix, store.Deep)
	if err != nil || len(names) == 0 {
		return fmt.Errorf("%d objects start with %s, %w", len(names), prefix, err)
	}
	return s.Remove(t.Context(), names[0])
}

// rewriteFirst writes the first object with a prefix once more, with its bits changed by flip in the middle.
func rewriteFirst(t *testing.T, s store.Store, prefix string, flip byte) error {
	names, err := store.Names(t.Context(), s, prefix, store.Deep)
	if err != nil || len(names) == 0 {
		return fmt.Errorf("%d objects start with %s, %w", len(names), prefix, err)
	}
	data, err := store.ReadFile(t.Context(), s, names[0])
	must(t, err)
	data[len(data)/2] ^= flip
	return s.Replace(t.Context(), names[0], func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// TestShardsInAnyStore: shards, and the last of them for all, in a store that is no directory.
func TestShardsInAnyStore(t *testing.T) {
	base := job{prompts: writeTable(t, "all.csv", seamTable)}
	memory := storetest.NewMemory()
	directory, nowhere := base, base.in(memory)
	directory.out, nowhere.out = filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "out")
	for shard := range 2 {
		for _, j := range []job{directory, nowhere} {
			j.opts.Shard, j.opts.Shards = shard, 2
			if r := j.mustRun(t); r.Joined != (shard == 1) {
				t.Fatalf("shard %d: joined %v", shard, r.Joined)
			}
		}
	}
	onDisk, err := dir.Open(directory.out)
	must(t, err)
	defer onDisk.Close()
	inMemory, err := memory.Open(t.Context(), "")
	must(t, err)
	if want, got := objects(t, onDisk), objects(t, inMemory); !maps.Equal(want, got) {
		t.Errorf("in a directory\n%v\nin memory\n%v", want, got)
	}
	release, err := inMemory.Lock(t.Context(), ".lock", "somebody")
	must(t, err)
	defer release()
	if _, err := nowhere.run(); fault.ExitCode(err) != fault.ExitTryAgain {
		t.Errorf("a run on an output in use: %v", err)
	}
}

// TestStoreOutOfReach: a store that cannot answer now ends the run, to be tried again; nothing is computed anew for it.
func TestStoreOutOfReach(t *testing.T) {
	for call, prefix := range map[string]string{
		"List": "videos/", "Open": "ledger/", "Lock": "", "Held": "", "Remove": "summary.json", "Replace": "tables/", "Put": "",
	} {
		memory := storetest.NewMemory()
		j := job{prompts: writeTable(t, "all.csv", seamTable), out: "none"}.in(memory)
		s, err := memory.Open(t.Context(), "")
		must(t, err)
		rows := int64(7)
		if call != "Put" { // else nothing is left to be put
			j.mustRun(t)
			must(t, s.Remove(t.Context(), "index.html")) // so that there is something to do
			rows = 0
		}
		if call == "Held" { // another run's lock, to be looked at
			must(t, s.Put(t.Context(), store.Object{Name: ".00000-of-00002-lock", Data: []byte("{}")}))
		}
		memory.Fault = func(c, name string) error {
			if c == call && strings.HasPrefix(name, prefix) {
				return fault.TryAgain(errors.New("503 Service Unavailable"))
			}
			return nil
		}
		if r, err := j.run(); fault.ExitCode(err) != fault.ExitTryAgain || r.Done > 0 {
			t.Errorf("%s: %d rows done, %v", call, r.Done, err)
		}
		memory.Fault = nil
		if r := j.mustRun(t); r.Done != rows || r.NothingToDo {
			t.Errorf("%s: then %d rows were done, want %d", call, r.Done, rows)
		}
	}
}
