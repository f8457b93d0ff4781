package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/results/report"
	"latentbeam/pipelines"
	"latentbeam/pipelines/planning"
)

// TestCleanExplainDiff edits a row, so that a run makes another result: explain says why, diff shows the change, and clean
// removes only the old result.
func TestCleanExplainDiff(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	s.says(s.run(2, "clean", "out"), "out")
	s.run(0, "run", "job.yaml")
	s.says(s.run(0, "explain", "out", "b"), "b (prompts.csv:3): done", "a run skips it", "depends on: num_inference_steps 2")
	s.says(s.run(0, "explain", "out", "prompts.csv:3"), "b (prompts.csv:3): done")
	s.says(s.run(2, "explain", "out", "zz"), `no row of the input is called "zz"`)
	s.run(0, "run", "job.yaml", "--set", "output.path=half", "--set", "stages.denoise.guidance_interval=[0,0.5]")
	s.says(s.run(0, "explain", "half", "b"), "the denoiser computed 3 of its 4 evaluations")
	if err := os.CopyFS(filepath.Join(s.dir, "before"), os.DirFS(filepath.Join(s.dir, "out"))); err != nil {
		t.Fatal(err)
	}
	s.says(s.run(0, "diff", "out", "before"), "the same rows with the same results")
	s.write("prompts.csv", strings.Replace(threePrompts, "a blue square moves up", "a blue square moves down", 1))
	s.says(s.run(0, "explain", "out", "b"), "b (prompts.csv:3): new",
		"changed: prompt, from a blue square moves up to a blue square moves down")
	s.write("other.yaml", strings.Replace(small, "num_inference_steps: 2", "num_inference_steps: 3", 1))
	s.says(s.run(0, "explain", "out", "a", "--job", "other.yaml"), "changed: num_inference_steps, from 2 to 3")
	s.says(s.run(0, "clean", "out"), "0 files")
	s.run(0, "run", "job.yaml")
	s.says(s.run(1, "diff", "before", "out"), "videos: 2 rows are the same, 1 differ",
		"prompt a blue square moves up -> a blue square moves down")
	s.write("out/videos/mine.mp4", "mine")
	before := s.list()
	s.says(s.run(0, "clean", "out"), "2 files", "1 records of the ledger would be removed", "--apply")
	if after := s.list(); len(after) != len(before) {
		t.Error("clean --dry-run removed something")
	}
	s.says(s.run(0, "clean", "out", "--older-than", "1d", "--apply"), "0 files", "2 files stay because they are younger")
	s.says(s.run(0, "clean", "out", "--apply"), "2 files", "are removed", "the tables name 3 rows")
	s.says(s.run(0, "verify", "out"), "3 rows", "all is as it was written", "foreign    videos/mine.mp4")
	s.says(s.run(0, "run", "job.yaml"), "nothing to do")
	s.write("out/tables/videos/00000.parquet", "cut")
	s.says(s.run(2, "clean", "out", "--apply"), "a table is damaged")
	s.says(s.run(2, "clean", "out", "--older-than", "soon"), "36h or 30d")
	if err := os.Remove(filepath.Join(s.dir, "out", "summary.json")); err != nil {
		t.Fatal(err)
	}
	s.says(s.run(2, "clean", "out", "--apply"), "not finished")
}

// TestRetention: clean keeps the outputs that were finished last, and directories that are not outputs.
func TestRetention(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", "id,prompt\na,a red circle\n")
	for i, day := range []string{"out/mon", "out/tue", "out/wed"} {
		s.run(0, "run", "job.yaml", "--output", day)
		at := time.Now().Add(time.Duration(i-10) * 24 * time.Hour)
		if err := os.Chtimes(filepath.Join(s.dir, day, "summary.json"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	s.run(0, "run", "job.yaml", "--output", "out/half")
	if err := os.Remove(filepath.Join(s.dir, "out/half/summary.json")); err != nil {
		t.Fatal(err)
	}
	s.write("out/mon/notes.txt", "mine")
	s.write("out/log", "no output")
	all := []string{"out/mon", "out/tue", "out/wed", "out/half", "out/log"}
	clean := func(code int, flags ...string) string {
		return s.run(code, slices.Concat([]string{"clean"}, all, flags)...)
	}
	s.says(clean(0, "--keep-outputs", "1"), "out/half stays: it is not a finished output", "out/log stays", "out/tue would be removed",
		"2 outputs would be removed, 3 stay", "--apply")
	s.says(clean(0, "--outputs-older-than", "30d"), "no output would be removed")
	s.says(clean(0, "--outputs-older-than", "9.5d", "--apply"), "out/mon is removed", "1 outputs are removed")
	s.says(s.run(0, "verify", "out/wed"), "all is as it was written")
	if left := s.files("out/mon/*"); len(left) != 1 || filepath.Base(left[0]) != "notes.txt" {
		t.Errorf("files of out/mon are left: %v", left)
	}
	all = all[1:]
	s.says(clean(0, "--keep-outputs", "1", "--apply"), "out/tue is removed")
	if _, err := os.Stat(filepath.Join(s.dir, "out/tue")); err == nil {
		t.Error("out/tue was not removed")
	}
	s.says(s.run(0, "verify", "out/wed"), "all is as it was written")
	s.files("out/half/videos/*/*.mp4")
	s.says(s.run(2, "clean", "out/wed", "--keep-outputs", "0"), "give 1 or more")
	s.says(s.run(2, "clean", "out/wed", "out/half"), "several outputs need")
}

// TestNextCommand: the last line of a run is the exact command that the user may want next.
func TestNextCommand(t *testing.T) {
	type result = pipelines.Result
	args := []string{"/usr/bin/latentbeam", "run", "my job.yaml", "--set", "defaults.seed=7"}
	totals := func(done, failed, pending int64) report.Totals {
		return report.Totals{Done: done, Failed: failed, Pending: pending}
	}
	for _, c := range []struct {
		system, dir, want string
		programs          bool
		r                 result
	}{
		{"linux", "out/x", "latentbeam run 'my job.yaml' --set defaults.seed=7", false, result{Totals: totals(1, 1, 2), Gallery: "index.html"}},
		{"linux", "it's/x", `latentbeam retry 'it'\''s/x'`, false, result{Totals: totals(1, 1, 0), Gallery: "index.html"}},
		{"linux", "out/x", "latentbeam retry out/x --allow-exec", true, result{Totals: totals(1, 1, 0), Gallery: "index.html"}},
		{"linux", "out/x", "xdg-open out/x/index.html", false, result{Totals: totals(1, 1, 0), Plan: planning.Plan{Unusable: 1}, Gallery: "index.html"}},
		{"linux", "out/x", "xdg-open out/x/index.html", false, result{Totals: report.Totals{Done: 1, Failed: 2, Final: 1}, Plan: planning.Plan{Unusable: 1}, Gallery: "index.html"}},
		{"linux", "out/x", "latentbeam retry out/x", false, result{Totals: report.Totals{Done: 1, Failed: 2, Final: 1}, Gallery: "index.html"}},
		{"darwin", "out/x", "open out/x/index.html", false, result{Totals: totals(1, 0, 0), Gallery: "index.html"}},
		{"linux", "gs://b/x", "latentbeam verify gs://b/x", false, result{Totals: totals(1, 0, 0), Gallery: "index.html"}},
		{"linux", "out/x", "latentbeam verify out/x", false, result{Totals: totals(1, 0, 0)}},
		{"linux", "out/x", "", false, result{Totals: totals(0, 2, 0), Plan: planning.Plan{Unusable: 2}}},
	} {
		if got := nextCommand(args, c.system, c.dir, c.programs, c.r); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
