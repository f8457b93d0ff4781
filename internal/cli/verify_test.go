package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/results/audit"
)

// flip changes a bit in the middle of a file and keeps its modification time, so that a rerun does not notice.
func (s shell) flip(path string) {
	s.t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		s.t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		s.t.Fatal(err)
	}
}

// files returns the files below the directory that match a pattern. There must be some.
func (s shell) files(pattern string) []string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, pattern))
	if err != nil || len(files) == 0 {
		s.t.Fatalf("the pattern %s matches %v, %v", pattern, files, err)
	}
	return files
}

// TestVerify: verify finds every kind of damage and --repair makes the files again, also from another directory.
func TestVerify(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	s.run(0, "run", "job.yaml", "--set", "output.write=[video,latents]")
	s.says(s.run(0, "verify", "out"), "3 rows", "all is as it was written")
	video := s.files("out/videos/*/*.mp4")[0]
	s.flip(video)
	s.says(s.run(1, "verify", "out"), "damaged    videos/", ".mp4: of row ")
	for _, path := range []string{s.files("out/posters/*/*.jpg")[1], s.files("out/tables/latents/*")[0],
		s.files("out/tables/videos/*")[0], s.files("out/index.html")[0]} {
		s.flip(path)
	}
	s.write("out/notes.txt", "mine")
	text := s.run(1, "verify", "out")
	s.says(text, "damaged    videos/", "damaged    posters/", "damaged    tables/latents/00000.parquet",
		"damaged    tables/videos/00000.parquet",
		"damaged    index.html", "foreign    notes.txt", "latentbeam verify out --repair")
	var found audit.Verified
	cmd, stdout, _ := s.command("verify", "out", "--json")
	_ = cmd.Run() // it ends with exit code 1
	if err := json.Unmarshal([]byte(stdout.String()), &found); err != nil || found.Counts[audit.Damaged] < 5 {
		t.Errorf("verify --json prints %+v, %v", found, err)
	}
	elsewhere := s
	elsewhere.dir = t.TempDir()
	elsewhere.says(elsewhere.run(0, "verify", filepath.Join(s.dir, "out"), "--repair"), "all is as it was written")
	s.says(s.run(0, "run", "job.yaml", "--set", "output.write=[video,latents]"), "nothing to do")
	s.flip(s.files("out/ledger/*.seg")[0])
	s.says(s.run(1, "verify", "out"), "damaged    ledger/", "records are lost")
	s.says(s.run(0, "verify", "out", "--repair"), "all is as it was written")
	s.flip(filepath.Join(s.dir, "out", "job.json"))
	s.says(s.run(2, "verify", "out", "--repair"), "job.json is damaged", "run the job by its YAML")
	s.says(s.run(0, "run", "job.yaml", "--set", "output.write=[video,latents]"), "nothing to do")
	s.run(0, "verify", "out")
	if err := os.Remove(filepath.Join(s.dir, "out", "job.json")); err != nil {
		t.Fatal(err)
	}
	s.says(s.run(0, "run", "job.yaml", "--set", "output.write=[video,latents]"), "nothing to do")
	s.run(0, "retry", "out")
	s.says(s.run(2, "verify", "nowhere"), "nowhere")
}

// TestRepairOfAChangedJob: a repair computes no new rows. It says what to do, and that advice works.
func TestRepairOfAChangedJob(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	s.run(0, "run", "job.yaml")
	s.flip(s.files("out/videos/*/*.mp4")[0])
	s.write("prompts.csv", strings.Replace(threePrompts, "moves left", "moves right", 1))
	before := len(s.files("out/ledger/*.seg"))
	s.says(s.run(2, "verify", "out", "--repair"), "1 of the 3 rows of the job have never been done", "prompts.csv:2` says what has changed",
		"latentbeam run job.yaml")
	if after := len(s.files("out/ledger/*.seg")); after != before {
		t.Errorf("the repair wrote to the ledger: it has %d files, before it had %d", after, before)
	}
	s.says(s.run(0, "explain", "out", "prompts.csv:2"), "changed: prompt, from a red circle moves left to a red circle moves right")
	s.write("prompts.csv", threePrompts)
	s.says(s.run(0, "verify", "out", "--repair"), "all is as it was written")

	s.run(0, "run", "job.yaml", "--set", "defaults.num_inference_steps=3")
	s.flip(s.files("out/videos/*/*.mp4")[0])
	s.flip(s.files("out/videos/*/*.mp4")[1])
	s.flip(s.files("out/videos/*/*.mp4")[2])
	s.flip(s.files("out/videos/*/*.mp4")[3])
	s.says(s.run(1, "verify", "out"), "stale      videos/", "damaged    videos/")
	s.says(s.run(0, "verify", "out", "--repair"), "no table names", "latentbeam clean", "all that the tables name is as it was written")
	s.run(0, "clean", "out", "--apply")
	s.says(s.run(0, "verify", "out"), "3 rows", "all is as it was written")
}
