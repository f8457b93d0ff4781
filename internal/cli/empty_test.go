package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/table/typed"
	"latentbeam/schemas"
)

// videoIDs lists the rows of the videos table.
func (s shell) videoIDs() (ids []string) {
	s.t.Helper()
	files, _ := filepath.Glob(filepath.Join(s.dir, "out", "tables", "videos", "*.parquet"))
	for _, file := range files {
		for row, err := range typed.Read[schemas.VideoRow](file, false) {
			if err != nil {
				s.t.Fatal(err)
			}
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// TestEmptyInput: an input without rows is an error before anything is written. A shard may have no rows.
func TestEmptyInput(t *testing.T) {
	for name, text := range map[string]string{"a.csv": "id,prompt\n", "a.jsonl": "", "a.txt": "",
		"a.parquet": plantedParquet[plantedText](t, nil)} {
		s := newShell(t, "job.yaml", small, name, text)
		for _, verb := range [][]string{{"run", "job.yaml"}, {"run", "job.yaml", "--dry-run"},
			{"run", "job.yaml", "--shard", "0/2"}, {"run", "job.yaml", "--limit", "3"}, {"plan", "job.yaml"}} {
			said := s.run(2, append(verb, "--set", "input.prompts="+name)...)
			s.says(said, "input.prompts", "the input has no rows", "--allow-empty")
		}
		if _, err := os.Stat(filepath.Join(s.dir, "out")); !os.IsNotExist(err) {
			t.Errorf("%s: the run created the output: %v", name, err)
		}
		s.run(0, "run", "job.yaml", "--set", "input.prompts="+name, "--allow-empty")
	}
	s := newShell(t, "job.yaml", small, "prompts.csv", "id,prompt\na,a red circle\n")
	s.run(0, "run", "job.yaml", "--shard", "0/2")
	s.run(0, "run", "job.yaml", "--shard", "1/2")
}

// TestVersion: --version and the verb version print the same.
func TestVersion(t *testing.T) {
	s := newShell(t)
	flag, _ := s.inProcess("--version")
	if verb, exit := s.inProcess("version"); exit != 0 || flag != verb {
		t.Errorf("exit code %d; --version prints %q, but version prints %q", exit, flag, verb)
	}
}

// TestVanishedRows: a dry run says that the input has lost rows, before a run removes them from the output's tables.
func TestVanishedRows(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	s.run(0, "run", "job.yaml")
	s.write("prompts.csv", "id,prompt\n")
	s.says(s.run(2, "run", "job.yaml"), "the input has no rows")
	if ids := s.videoIDs(); len(ids) != 3 {
		t.Errorf("a run on an empty table has removed rows of the output: %v", ids)
	}
	s.write("prompts.csv", strings.Join(strings.SplitAfter(threePrompts, "\n")[:2], ""))
	s.says(s.run(0, "run", "job.yaml", "--dry-run"), "the input has lost 2 rows of the finished output")
	said := s.run(0, "run", "job.yaml")
	s.says(said, "the input has lost rows of the finished output", "lost: 2; left: 1")
	if ids := s.videoIDs(); len(ids) != 1 {
		t.Errorf("got videos %v", ids)
	}
	if said := s.run(0, "run", "job.yaml"); strings.Contains(said, "has lost") {
		t.Errorf("the message is printed twice:\n%s", said)
	}
}
