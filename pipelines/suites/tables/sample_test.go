package tables

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
)

// samplesOf returns the digest of each video of an output by its sample index.
func samplesOf(t *testing.T, out string) map[int64]string {
	t.Helper()
	found := map[int64]string{}
	for _, r := range jobtest.ReadRows[schemas.VideoRow](t, out, "videos") {
		found[r.SampleIndex] = r.VideoSHA256
	}
	return found
}

// TestSampleIndex: a row with a sample_index computes only that video. The table of an output can be such an input. If an output was
// made when the column was only carried, the job asks what to do.
func TestSampleIndex(t *testing.T) {
	all := jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", "id,prompt,seed,num_videos_per_prompt\na,a red circle,42,4\n"), Out: filepath.Join(t.TempDir(), "out")}
	all.MustRun(t)
	want := samplesOf(t, all.Out)
	if len(slices.Compact(slices.Sorted(maps.Values(want)))) != 4 {
		t.Fatalf("got videos %v", want)
	}
	const one = "id,prompt,seed,sample_index\na,a red circle,42,3\n"
	alone := jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", one), Out: filepath.Join(t.TempDir(), "out")}
	alone.MustRun(t)
	if got := samplesOf(t, alone.Out); len(got) != 1 || got[3] != want[3] {
		t.Errorf("sample 3 alone: got %v, want %s", got, want[3])
	}
	opened, err := alone.Open()
	jobtest.Must(t, err)
	answers, err := opened.Explain(t.Context(), "a")
	opened.Close()
	if err != nil || len(answers) != 1 || answers[0].Sample != 3 || !strings.Contains(fmt.Sprint(answers[0].Depends), "{sample_index  3}") {
		t.Errorf("explain: got %+v, %v", answers, err)
	}

	table := jobtest.Job{Prompts: jobtest.TableFile(all.Out, "videos"), Out: filepath.Join(t.TempDir(), "out")}
	if r := table.MustRun(t); r.Totals.Rows != 4 || !maps.Equal(samplesOf(t, table.Out), want) {
		t.Errorf("from the table of the output: got %v, want %v", samplesOf(t, table.Out), want)
	}

	bad := jobtest.Job{Prompts: jobtest.WriteTable(t, "p.csv", "id,prompt,sample_index\na,a red circle,-1\n"), Out: filepath.Join(t.TempDir(), "out")}
	if r, err := bad.Run(); err != nil || r.Plan.Unusable != 1 {
		t.Errorf("sample -1: got totals %+v, %v", r.Totals, err)
	}

	was := jobtest.Job{Prompts: alone.Prompts, Out: filepath.Join(t.TempDir(), "out"), Sets: []string{`input.columns={sample_index: ""}`}}
	was.MustRun(t)
	if got := samplesOf(t, was.Out); got[0] != want[0] {
		t.Errorf("sample_index as a carried column: got %v, want %s", got, want[0])
	}
	now := was
	now.Sets = nil
	if _, err := now.Run(); fault.ExitCode(err) != fault.ExitUsage || !strings.Contains(err.Error(), `columns: {sample_index: ""}`) {
		t.Errorf("an output of an earlier release: got error %v", err)
	}
}
