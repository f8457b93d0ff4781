package cli

import (
	"os"
	"strings"
	"testing"

	"latentbeam/internal/store/bucket/buckettest"
)

// TestBucketCommands runs every command of docs/buckets.md.
func TestBucketCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/buckets.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newShell(t)
	s.env = append(buckettest.GCS(t).Env, buckettest.S3(t).Env...)
	_, block, _ := strings.Cut(string(text), "```sh\n")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("no block of commands")
	}
	runs := map[string]int{}
	for line := range strings.Lines(block) {
		args := strings.Fields(line)
		out := s.run(0, args[1:]...)
		if runs[line]++; runs[line] == 2 {
			s.says(out, "0 to do")
		}
		if strings.Contains(out, buckettest.SecretKey) {
			t.Errorf("%s shows a secret: %s", line, out)
		}
	}
	if s.exists("gs:") || s.exists("s3:") {
		t.Error("a directory was made for a bucket")
	}
	s.says(s.run(0, "run", "job.yaml", "--output", "home"), "0 to do") // a job goes on in a copy
	s.says(s.run(0, "copy", "gs://bucket/jobs/one", "again"), "; 0 were there")
	s.says(s.run(0, "copy", "again", "s3://bucket/jobs/two"), "; 0 were there")
	s.says(s.run(0, "run", "job.yaml", "--output", "s3://bucket/jobs/two"), "0 to do")
	if s.exists("tables/index.html") || !s.exists("tables/tables/videos-00000.parquet") {
		t.Error("--only tables copied something else")
	}
	s.run(2, "copy", "gs://bucket/nothing", "new")
	s.run(2, "copy", "again", "home", "--only", "ledger")
	s.run(2, "copy", "again", "again")
	s.says(s.run(2, "copy", "tables", "home"), "another output")
	s.says(s.run(2, "doctor", "gs://bucket/x"), "--limit 1")
}
