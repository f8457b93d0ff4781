package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// TestForeignFilesStay: a run and a plan refuse an output with a page that no run wrote. After a run has
// written a page of this name, later runs replace it.
func TestForeignFilesStay(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	if err := os.Mkdir(filepath.Join(s.dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"out/index.html", "out/job.json", "out/notes.txt"} {
		s.write(name, "mine")
	}
	for _, args := range [][]string{{"run", "job.yaml"}, {"plan", "job.yaml"}, {"run", "job.yaml", "--dry-run"}} {
		s.says(s.run(2, args...), "index.html, job.json", "no run of latentbeam wrote")
	}
	if data, err := os.ReadFile(filepath.Join(s.dir, "out/index.html")); err != nil || string(data) != "mine" {
		t.Errorf("the page that no run wrote has become %q, %v", data, err)
	}
	for _, name := range []string{"out/index.html", "out/job.json"} {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.run(0, "run", "job.yaml")
	s.says(s.run(0, "run", "job.yaml"), "3 done before")
}
