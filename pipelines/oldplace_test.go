package pipelines_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/storage/fingerprints"
	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/storetest"
	"latentbeam/schemas/fault"
)

var newPlace = regexp.MustCompile(`tables/(videos|failures|latents|embeddings)/`)

// toOldPlace moves the tables of an output to where earlier releases had them: without a folder for each table.
func toOldPlace(t *testing.T, s store.Store) {
	t.Helper()
	names, err := store.Names(t.Context(), s, "", store.Deep)
	jobtest.Must(t, err)
	moved := 0
	for _, name := range names {
		old := newPlace.ReplaceAllString(name, "tables/$1-")
		if old == name && !strings.HasSuffix(name, "summary.json") && name != "README.md" {
			continue
		}
		data, err := store.ReadFile(t.Context(), s, name)
		jobtest.Must(t, err)
		if old == name {
			data = newPlace.ReplaceAll(data, []byte("tables/$1-"))
		} else {
			jobtest.Must(t, s.Remove(t.Context(), name))
			moved++
		}
		jobtest.Must(t, s.Replace(t.Context(), old, func(w io.Writer) error {
			_, err := io.Copy(w, bytes.NewReader(data))
			return err
		}))
	}
	for _, name := range names {
		if fingerprints.IsWitnessFile(name) { // these files contain the new names
			jobtest.Must(t, s.Remove(t.Context(), name))
		}
	}
	if moved < 4 {
		t.Fatalf("only %d tables were moved", moved)
	}
}

// TestOldPlace: a run on the output of an earlier release moves the tables and computes nothing, also after runs that were killed at
// any point.
func TestOldPlace(t *testing.T) {
	for name, c := range map[string]struct {
		parts, stride int
		change        func(j *jobtest.Job)
	}{
		"the same rows":   {1, 1, func(*jobtest.Job) {}},
		"other files":     {1, 5, func(j *jobtest.Job) { j.Sets = []string{"output.rows_per_file=2"} }},
		"tensors no more": {1, 5, func(j *jobtest.Job) { j.Sets = append(j.Sets, "output.write=[video]") }},
		"a row fewer":     {1, 5, func(j *jobtest.Job) { j.Prompts = jobtest.WriteTable(t, "all.csv", fewerRows()) }},
		"a part of two":   {2, 5, func(*jobtest.Job) {}},
	} {
		t.Run(name, func(t *testing.T) {
			first := jobtest.Job{Prompts: jobtest.WriteTable(t, "all.csv", jobtest.SeamTable), Out: "none"}
			then := first
			c.change(&then)
			straight := storetest.NewMemory()
			s, err := straight.Open(t.Context(), "")
			jobtest.Must(t, err)
			if first.Opts.Shards = c.parts; c.parts == 1 {
				first.Opts.Shards = 0
			}
			inMemory(first, straight).MustRun(t)
			before := contents(t, s)
			want := inMemory(then, straight).MustRun(t)
			kills := 0
			if testing.Short() {
				c.stride = 7
			}
			for step := 1; killMoving(t, then, step, before, want.Done, jobtest.Objects(t, s)); step += c.stride {
				kills++
			}
			if kills < 3 {
				t.Errorf("only %d runs were killed, too few for a test", kills)
			}
			t.Logf("%d runs were killed", kills)
		})
	}
}

// fewerRows returns a prompt table.
func fewerRows() string {
	rows := strings.SplitAfter(jobtest.SeamTable, "\n")
	return rows[0] + strings.Join(rows[2:], "")
}

// contents returns all objects of an output.
func contents(t *testing.T, s store.Store) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	names, err := store.Names(t.Context(), s, "", store.Deep)
	jobtest.Must(t, err)
	for _, name := range names {
		out[name], err = store.ReadFile(t.Context(), s, name)
		jobtest.Must(t, err)
	}
	return out
}

// killMoving runs a job on the output of an earlier release, and kills the run at change number step of the store. The
// next run must compute no finished row, and its output must be equal to that of an undisturbed run. killMoving reports
// whether there was such a change.
func killMoving(t *testing.T, j jobtest.Job, step int, before map[string][]byte, rows int64, want map[string]string) bool {
	t.Helper()
	m := storetest.NewMemory()
	s, err := m.Open(t.Context(), "")
	jobtest.Must(t, err)
	for name, data := range before {
		jobtest.Must(t, s.Replace(t.Context(), name, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}))
	}
	toOldPlace(t, s)
	seen := 0
	m.Fault = func(call, _ string) error {
		if call == "Replace" || call == "Remove" || call == "Put" {
			seen++
		}
		if seen >= step {
			return fault.Fatal(errors.New("killed"))
		}
		return nil
	}
	r, err := inMemory(j, m).Run()
	killed := err != nil
	m.Fault = nil
	if killed {
		r, err = inMemory(j, m).Run()
	}
	if err != nil || r.Done > rows || r.Done != rows && !killed {
		t.Fatalf("killed at change %d: the next run has %d rows done, want %d: %v", step, r.Done, rows, err)
	}
	if got := jobtest.Objects(t, s); !maps.Equal(got, want) {
		t.Fatalf("killed at change %d: after the next run, other objects are %s", step, differing(got, want))
	}
	return killed
}

// differing returns the names of the objects that differ.
func differing(got, want map[string]string) string {
	var b strings.Builder
	for name, sum := range want {
		if got[name] != sum {
			fmt.Fprintf(&b, "%s is %q, not %q\n", name, got[name], sum)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			fmt.Fprintf(&b, "%s is there\n", name)
		}
	}
	return b.String()
}
