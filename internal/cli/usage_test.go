package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrongJobIsRefusedBeforeWork: a wrong job gives a message with file, line and remedy and exit code 2, and no output is
// created.
func TestWrongJobIsRefusedBeforeWork(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, new string // text of the job
		says     []string
	}{
		{"an impossible size", "  height: 16", "  height: 20",
			[]string{"job.yaml:5:", "height is 20: give a multiple of 16"}},
		{"too few steps", "steps: 2", "steps: 1",
			[]string{"job.yaml:8:", "num_inference_steps is 1: give 2 to 1000"}},
		{"an unknown option", "denoise,", "{denoise: {cfg: 3}},",
			[]string{"job.yaml:9:", `unknown key "cfg"`, "cfg_channel"}},
		{"an impossible option", "guard,", "{guard: {reject: [ugly]}},",
			[]string{"job.yaml:9:", "ugly", "nan, black"}},
		{"an impossible value", "denoise,", "{denoise: {dtype: int8}},",
			[]string{"job.yaml:9:41: ", `dtype is "int8": give fp32`}},
		{"nothing makes the table", "encode_video]", "]",
			[]string{"nothing in this job makes video", "add `- encode_video", "`write: [latents, embeddings]` in output"}},
		{"a model that is none", "model: tiny", "model: .", []string{"job.yaml:", "text_encoder"}},
		{"more workers on a batch than there are", "denoise,", "{denoise: {sequence_parallel: 3}},",
			[]string{"job.yaml:9:", "denoise wants 3 workers for a batch, the job has 1", "set resources.workers to 3"}},
		{"an output of another kind", "path: out", "path: ftp://b/out",
			[]string{"job.yaml:11:9: output.path is \"ftp://b/out\", an address of another kind", "gs:// or s3://"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(small, c.old) {
				t.Fatalf("the job has no %q", c.old)
			}
			s := newShell(t, "job.yaml", strings.Replace(small, c.old, c.new, 1), "prompts.csv", threePrompts)
			text, exit := s.inProcess("run", "job.yaml")
			if exit != 2 {
				t.Errorf("got exit code %d, want 2", exit)
			}
			s.says(text, c.says...)
			if s.exists("out") {
				t.Error("the run created an output")
			}
		})
	}
}

// TestWrongCommandLine: a wrong command line gives exit code 2 and a message with the mistake, before an output is created.
func TestWrongCommandLine(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	for _, c := range []struct {
		args string
		says []string
	}{
		{"", nil}, // no arguments print the help
		{"plan job.yaml --limit -1", []string{"--limit is -1"}},
		{"run job.yaml --limit two", []string{"invalid argument", "--limit"}},
		{"run job.yaml --shard 1", []string{`shard "1": give i/n`}},
		{"run job.yaml --shard 0/2/3", []string{`shard "0/2/3": give i/n`}},
		{"run job.yaml --set defaults.hight=16", []string{"--set defaults.hight=16", "height"}},
		{"run job.yaml --set stages.denoise.partition=even",
			[]string{"--set stages.denoise.partition=even: ", "give auto, uneven or pad"}},
		{"score none --by motion", []string{"there is nothing to score: stat none: no such file or directory"}},
		{"score . --by motion", []string{". is not the output of a job: give --output DIR"}},
		{"retry", []string{"accepts 1 arg"}},
		{"init a b", []string{"accepts at most 1 arg"}},
	} {
		code := 2
		if c.args == "" {
			code = 0
		}
		text, exit := s.inProcess(strings.Fields(c.args)...)
		if exit != code {
			t.Errorf("latentbeam %s: got exit code %d, want %d:\n%s", c.args, exit, code, text)
		}
		s.says(text, c.says...)
	}
	if s.exists("out") || s.exists("none") {
		t.Error("a wrong command line created an output")
	}
}

// TestShardFromTheEnvironment: an indexed Job of Kubernetes and an array of Slurm set the shard.
func TestShardFromTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		flag, env string
		want      shard
		fails     string
	}{
		{"", "", shard{}, ""},
		{"1/3", "", shard{1, 3, false}, ""},
		{"0/1", "JOB_COMPLETION_INDEX=3 JOB_COMPLETIONS=4", shard{0, 1, false}, ""},
		{"", "JOB_COMPLETION_INDEX=3 JOB_COMPLETIONS=4", shard{3, 4, false}, ""},
		{"", "JOB_COMPLETION_INDEX=3", shard{}, "set JOB_COMPLETIONS"},
		{"", "JOB_COMPLETION_INDEX=4 JOB_COMPLETIONS=4", shard{}, "give i/n"},
		{"", "SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=1", shard{1, 4, true}, ""},
		{"", "SLURM_ARRAY_TASK_ID=20 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=5 SLURM_ARRAY_TASK_STEP=5",
			shard{3, 4, true}, ""},
		{"", "SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_COUNT=3 SLURM_ARRAY_TASK_MIN=1", shard{}, "has gaps"},
		{"", "SLURM_ARRAY_TASK_ID=2", shard{}, "no count"},
		{"", "SLURM_ARRAY_TASK_ID=x SLURM_ARRAY_TASK_COUNT=3", shard{}, "not a number"},
	} {
		env := map[string]string{}
		for _, v := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		got, err := shardOf(c.flag, func(name string) string { return env[name] })
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("--shard %q, environment %s: got %v, %v; want %v, %q", c.flag, c.env, got, err, c.want, c.fails)
		}
		if notice := got.notice(); strings.Contains(notice, "--shard 0/1") != got.slurm {
			t.Errorf("--shard %q, environment %s: the notice is %q", c.flag, c.env, notice)
		}
	}
}

// TestShardsTogether: two shards that run at the same time in one output compute each row once and write one report.
func TestShardsTogether(t *testing.T) {
	const rows = 24 // enough that each shard has some, whatever the keys are on this processor
	var table strings.Builder
	table.WriteString("prompt\n")
	for i := range rows {
		table.WriteString(strings.Repeat("red ", i+1) + "circle\n")
	}
	s := newShell(t, "job.yaml", small, "prompts.csv", table.String())
	first, second := s, s
	first.env = []string{"JOB_COMPLETION_INDEX=0", "JOB_COMPLETIONS=2"}
	second.env = []string{"SLURM_ARRAY_TASK_ID=1", "SLURM_ARRAY_TASK_COUNT=2", "SLURM_ARRAY_TASK_MIN=0"}
	ended := make(chan string)
	go func() { ended <- first.run(0, "run", "job.yaml") }()
	other := second.run(0, "run", "job.yaml")
	one := <-ended
	s.says(one, "shard 0/2")
	s.says(other, "shard 1/2")
	s.says(one+other, "all 2 shards are done")
	videos, err := filepath.Glob(filepath.Join(s.dir, "out/videos/*/*.mp4"))
	if err != nil || len(videos) != rows {
		t.Errorf("got %d videos of %d rows, %v", len(videos), rows, err)
	}
	s.says(s.run(0, "retry", "out", "--shard", "1/2"), "nothing to do")
	s.says(s.run(0, "run", "job.yaml", "--shard", "0/1"), "nothing to do", fmt.Sprint(rows))
	if left, err := filepath.Glob(filepath.Join(s.dir, "out/tables/*/*-of-*")); err != nil || left != nil {
		t.Errorf("files of single shards are left: %q, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "out/tables/videos/00000.parquet")); err != nil {
		t.Error(err)
	}
}

// TestImpossibleOutputs: a path that cannot be an output is a usage error.
func TestImpossibleOutputs(t *testing.T) {
	s := newShell(t, "job.yaml", small, "prompts.csv", threePrompts)
	for output, want := range map[string]string{"prompts.csv/out": "a part of the path is a file; name a directory",
		"prompts.csv": "prompts.csv: it is a file; name a directory"} {
		s.says(s.run(2, "run", "job.yaml", "--output", output), want)
	}
	s.says(s.run(2, "verify", "prompts.csv"), "prompts.csv: it is a file; name a directory")
}
