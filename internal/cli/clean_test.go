package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCleanExplainDiff: a row is edited, which makes another result; explain says why, diff shows the change, clean
// removes the old result and nothing else.
func TestCleanExplainDiff(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	s.says(s.run(2, "clean", "out"), "out")
	s.run(0, "run", "job.yaml")
	s.says(s.run(0, "explain", "out", "b"), "b (prompts.csv:3): done", "a run skips it", "depends on: num_inference_steps 2")
	s.says(s.run(0, "explain", "out", "prompts.csv:3"), "b (prompts.csv:3): done")
	s.says(s.run(2, "explain", "out", "zz"), `no row of the input is called "zz"`)
	if err := os.CopyFS(filepath.Join(s.dir, "before"), os.DirFS(filepath.Join(s.dir, "out"))); err != nil {
		t.Fatal(err)
	}
	s.says(s.run(0, "diff", "out", "before"), "the same rows with the same results")
	s.write("prompts.csv", strings.Replace(threePrompts, "a blue square moves up", "a blue square moves down", 1))
	s.says(s.run(0, "explain", "out", "b"), "b (prompts.csv:3): new", "changed: prompt, from a blue square moves up to a blue square moves down")
	s.write("other.yaml", strings.Replace(small, "num_inference_steps: 2", "num_inference_steps: 3", 1))
	s.says(s.run(0, "explain", "out", "a", "--job", "other.yaml"), "changed: num_inference_steps, from 2 to 3")
	s.says(s.run(0, "clean", "out"), "0 files")
	s.run(0, "run", "job.yaml")
	s.says(s.run(1, "diff", "before", "out"), "videos: 2 rows are the same, 1 differ", "prompt a blue square moves up -> a blue square moves down")
	s.write("out/videos/mine.mp4", "mine")
	before := s.list()
	s.says(s.run(0, "clean", "out"), "2 files", "1 records of the ledger would be removed", "--apply")
	if after := s.list(); len(after) != len(before) {
		t.Error("a dry run removed something")
	}
	s.says(s.run(0, "clean", "out", "--older-than", "1d", "--apply"), "0 files", "2 files stay, for they are younger")
	s.says(s.run(0, "clean", "out", "--apply"), "2 files", "are removed", "the tables name 3 rows")
	s.says(s.run(0, "verify", "out"), "3 rows", "all is as it was written", "foreign    videos/mine.mp4")
	s.says(s.run(0, "run", "job.yaml"), "nothing to do")
	s.write("out/tables/videos-00000.parquet", "cut")
	s.says(s.run(2, "clean", "out", "--apply"), "a table is damaged")
	s.says(s.run(2, "clean", "out", "--older-than", "soon"), "36h or 30d")
	if err := os.Remove(filepath.Join(s.dir, "out", "summary.json")); err != nil {
		t.Fatal(err)
	}
	s.says(s.run(2, "clean", "out", "--apply"), "not finished")
}
