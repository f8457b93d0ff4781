package cli

import (
	"fmt"
	"testing"

	"latentbeam/stages/exec/exectest"
)

// TestProgramsNeedTrust: run starts the programs of a job, for its YAML is the user's own. A retry by job.json and a
// worker refuse them, unless they were told not to.
func TestProgramsNeedTrust(t *testing.T) {
	job := "version: 1\nmodel: none\ninput: {prompts: prompts.csv}\ndefaults: {height: 16, width: 16, num_frames: 2, fps: 8}\n" +
		"stages:\n  - exec: " + exectest.Options("prompt", "video", t.TempDir(), "") + "\noutput: {path: out}\n"
	s := newShell(t, "job.yaml", job, "prompts.csv", "prompt\na circle\na square do:error-once\n", "token", "a token of the test processes\n")
	s.env = append(s.env, "LATENTBEAM_TEST_STATE=x")
	s.run(1, "run", "job.yaml")
	s.says(s.run(2, "retry", "out"), "job.yaml:6", "the job runs a program here, and retry was not allowed to", "--allow-exec")
	s.run(0, "retry", "out", "--allow-exec")
	for _, c := range []struct {
		args []string
		exit int
	}{{nil, 2}, {[]string{"--allow-exec"}, 0}} {
		_, addr := s.startWorker(c.args...)
		out := s.run(c.exit, "run", "job.yaml", "--output", fmt.Sprint("away", c.exit), "--set", fmt.Sprintf("resources.hosts=[%q]", addr),
			"--set", "resources.token_file=token", "--set", "resources.workers=0")
		if c.exit != 0 {
			s.says(out, "the worker was not allowed to", "--allow-exec")
		}
	}
}
