package cli

import (
	"compress/gzip"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/internal/storage/store"
	"latentbeam/internal/storage/store/bucket/buckettest"
	"latentbeam/internal/storage/store/open"
)

// TestBucketCommands runs every command of docs/buckets.md.
func TestBucketCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/buckets.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t)
	s.env = append(buckettest.GCS(t).Env, buckettest.S3(t).Env...)
	s.env = append(s.env, "LATENTBEAM_CACHE="+t.TempDir())
	name, value, _ := strings.Cut(s.env[0], "=") // this process needs it too, because it uploads the model
	t.Setenv(name, value)
	model, err := open.Output(t.Context(), "gs://bucket/models/tiny")
	if err == nil {
		err = uploadAll(t.Context(), model, "../../testdata/tiny")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```sh\n")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("docs/buckets.md has no block of commands")
	}
	runs := map[string]int{}
	for line := range strings.Lines(block) {
		args := strings.Fields(strings.ReplaceAll(line, `"`, ""))
		out := s.run(0, args[1:]...)
		if args[1] == "init" { // fewer steps, because each run of the page computes rows
			job, err := os.ReadFile(filepath.Join(s.dir, "job.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			s.write("job.yaml", strings.Replace(string(job), "# num_inference_steps: 50", "num_inference_steps: 2", 1))
		}
		if runs[line]++; runs[line] == 2 {
			s.says(out, "0 to do")
		}
		if strings.Contains(line, "model=") {
			s.says(out, "0 to do")
		}
		if strings.Contains(out, buckettest.SecretKey) {
			t.Errorf("%s shows a secret: %s", line, out)
		}
	}
	if s.exists("gs:") || s.exists("s3:") {
		t.Error("a local directory was made for the address of a bucket")
	}
	s.says(s.run(0, "run", "job.yaml", "--output", "home"), "0 to do") // a job continues in a copy of its output
	s.says(s.run(0, "copy", "gs://bucket/jobs/one", "again"), "; 0 were there")
	s.says(s.run(0, "copy", "again", "s3://bucket/jobs/two"), "; 0 were there")
	s.says(s.run(0, "run", "job.yaml", "--output", "s3://bucket/jobs/two"), "0 to do")
	if s.exists("tables/index.html") || !s.exists("tables/tables/videos/00000.parquet") {
		t.Error("copy --only tables copied other files")
	}
	s.run(2, "copy", "gs://bucket/nothing", "new")
	s.run(2, "copy", "again", "home", "--only", "ledger")
	s.run(2, "copy", "again", "again")
	s.says(s.run(2, "copy", "tables", "home"), "another output")
	for _, url := range []string{"gs://bucket/x", "s3://bucket/x"} {
		s.says(s.run(0, "doctor", url), "put if absent", "replace by version", "pages of a listing", url+" gives the guarantees that jobs need")
	}
	s.run(2, "doctor", "s3://nothing/x")
}

// uploadAll puts the files of a directory into a store.
func uploadAll(ctx context.Context, into store.Store, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return into.Put(ctx, store.Object{Name: filepath.ToSlash(name), Data: data})
	})
}

// TestStandardInput: run reads a table from standard input.
func TestStandardInput(t *testing.T) {
	s := newShell(t, "job.yaml", small)
	s.stdin = "prompt\na red circle\na blue square\n"
	s.says(s.run(0, "run", "job.yaml", "--set", "input.prompts=-", "--set", "input.format=csv"), "2 to do")
	s.says(s.run(0, "run", "job.yaml", "--set", "input.prompts=-", "--set", "input.format=csv"), "0 to do")
	s.says(s.run(2, "run", "job.yaml", "--set", "input.prompts=-"), "set input.format")
	var packed strings.Builder
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(s.stdin)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	s.stdin = packed.String()
	s.says(s.run(0, "run", "job.yaml", "--set", "input.prompts=-", "--set", "input.format=csv"), "0 to do")
	s.stdin = ""
	s.says(s.run(2, "run", "job.yaml", "--set", "input.prompts=-", "--set", "input.format=csv"), "pipe the table")
}
