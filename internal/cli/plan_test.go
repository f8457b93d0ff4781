package cli

import (
	"regexp"
	"strings"
	"testing"
)

// TestPlan: plan prints devices, layouts and times of a job, and writes nothing.
func TestPlan(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	for _, c := range []struct {
		args string
		says []string
	}{
		{"plan job.yaml", []string{"1 x cpu", "(measured)", "16x16x", "3 rows to compute", "1 set of 1, 3 elements at once",
			"denoise      1 batch of 3 on 1 device"}},
		// Two workers have as many threads each. Of three workers on four processors, one would be twice as fast as the others.
		{"plan job.yaml --workers 3 --set resources.threads=3 --set resources.batch_size=1", []string{
			"1 set of 3, 3 elements at once",
			"denoise      1 batch of 3 on 3 devices together, joined from 3 waiting batches",
			"not chosen: sequence_parallel: 1 for every batch: "}},
		{"plan job.yaml --devices 3xT4-16GB", []string{"3 x T4-16GB: 14.5 GiB, 20.0 TFLOP/s", "(assumed)",
			"0 T4-16GB", "not chosen: sequence_parallel: 1 for every batch: "}},
		{"plan job.yaml --workers 4 --set stages.denoise.tp_size=2 --set stages.denoise.pp_size=2", []string{
			"sequence_parallel 1 x tp_size 2 x pp_size 2", "weights of denoise: sharded over 4 devices, tp_size 2 by pp_size 2"}},
		{"plan job.yaml --devices 8xH100-80GB --limit 1", []string{"1 row to compute", "0 H100-80GB"}},
		{"plan job.yaml --devices 2xH100-80GB+1xT4-16GB", []string{"2 x H100-80GB", "1 x T4-16GB"}},
		{"plan job.yaml --devices 2xH100/2xH100", []string{"on 2 hosts: 1.1 GiB/s between them"}},
	} {
		s.says(s.run(0, strings.Fields(c.args)...), c.says...)
	}
	if s.exists("out") {
		t.Error("plan created an output")
	}
}

// TestPlanIsRefused: plan reports mistakes in its flags and in the job.
func TestPlanIsRefused(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	for _, c := range []struct {
		args string
		says []string
	}{
		{"plan job.yaml --devices 4xT9-16GB", []string{"--devices", `"T9" is not a known device`, "4xT4-16GB"}},
		{"plan job.yaml --devices 4xT4 --workers 2", []string{"--workers is for this machine"}},
		{"plan job.yaml --workers -1", []string{"resources.workers"}},
		{"plan job.yaml --workers 0", []string{"resources.workers is 0"}},
		{"plan none.yaml", []string{"no such file"}},
		{"plan job.yaml --devices 2xT4-0.001GB", []string{"job.yaml:", "does not fit device 0 (T4-0.001GB)", "of weights",
			"what would fit: "}},
	} {
		s.says(s.run(2, strings.Fields(c.args)...), c.says...)
	}
}

// TestPlanAfterRun: if every row is done, plan shows the plan of the whole job.
func TestPlanAfterRun(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	s.run(0, "run", "job.yaml", "--limit", "2")
	text := s.run(0, "plan", "job.yaml", "--devices", "2xT4-16GB")
	s.says(text, "1 row to compute")
	if !regexp.MustCompile(`time +\S+ for all rows`).MatchString(text) {
		t.Errorf("the plan has no predicted time:\n%s", text)
	}
	s.run(0, "run", "job.yaml")
	s.says(s.run(0, "plan", "job.yaml", "--devices", "2xT4-16GB"), "every row is done: a run computes nothing", "3 rows to compute")
}
