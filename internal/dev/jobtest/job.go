package jobtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/config"
	"latentbeam/pipelines"
	"latentbeam/pipelines/jobfile"
	"latentbeam/runners"
	"latentbeam/stages"
	"latentbeam/stages/catalog"
)

// Job is a job for a test: the built-in model with its smallest shape, two sampling steps, and all tables.
type Job struct {
	Prompts string // path of the prompt table
	Input   string // the YAML map; "": the prompt table
	Out     string // the output
	Stages  string // the YAML list; "": text to video
	Sets    []string
	Specs   []stages.Spec // added to the catalog
	Replace *stages.Spec  // replaces the stage of the same name in the catalog
	Opts    pipelines.Options
}

// TextToVideo is the default list of stages.
const TextToVideo = "[encode_text, denoise, decode_vae, guard, encode_video]"

// smallest are defaults with which a row takes milliseconds.
const smallest = "{height: 16, width: 16, num_frames: 2, fps: 8, seed: 42, " +
	"num_inference_steps: 2, guidance_scale: 4}"

// YAML returns the YAML file of the job.
func (j Job) YAML() string {
	list := j.Stages
	if list == "" {
		list = TextToVideo
	}
	input := j.Input
	if input == "" {
		input = fmt.Sprintf("{prompts: %q}", j.Prompts)
	}
	return fmt.Sprintf("version: 1\nmodel: tiny\ninput: %s\ndefaults: %s\nstages: %s\n"+
		"output: {path: %q, write: [video, latents, embeddings]}\n", input, smallest, list, j.Out)
}

// Unattached opens the job but does not lock its output.
func (j Job) Unattached() (*pipelines.Job, error) {
	cfg, err := config.Parse("job.yaml", j.YAML(), j.Sets)
	if err != nil {
		return nil, err
	}
	o := j.Opts
	o.Specs, o.Version = append(catalog.All(), j.Specs...), "test"
	for i, s := range o.Specs {
		if j.Replace != nil && s.Name == j.Replace.Name {
			o.Specs[i] = *j.Replace
		}
	}
	o.Start = jobfile.Start{File: "job.yaml", YAML: j.YAML(), Sets: j.Sets}
	return pipelines.Open(cfg, o)
}

// Open opens the job and locks its output.
func (j Job) Open() (*pipelines.Job, error) {
	opened, err := j.Unattached()
	if err != nil {
		return nil, err
	}
	if err := opened.Attach(context.Background()); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// Run runs the job to its end.
func (j Job) Run() (pipelines.Result, error) {
	opened, err := j.Open()
	if err != nil {
		return pipelines.Result{}, err
	}
	defer opened.Close()
	return opened.Run(context.Background(), nil)
}

// MustRun runs the job and fails the test on an error.
func (j Job) MustRun(t *testing.T) pipelines.Result {
	t.Helper()
	r, err := j.Run()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// RunConfig runs a job with the stages of the catalog.
func RunConfig(t *testing.T, cfg *config.Config) pipelines.Result {
	t.Helper()
	job, err := pipelines.Open(cfg, pipelines.Options{Specs: catalog.All(), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	if err := job.Attach(context.Background()); err != nil {
		t.Fatal(err)
	}
	r, err := job.Run(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Share returns the job as shard i of n.
func (j Job) Share(i, n int) Job {
	j.Opts.Shard, j.Opts.Shards = i, n
	return j
}

// RerunTable has two equal rows, with the ids x and y.
const RerunTable = `id,prompt,seed
a,a red circle moves left,
x,a blue square moves up,7
b,a green triangle stays still,
y,a blue square moves up,7
`

// NewJob returns a job with a new table and a new output.
func NewJob(t *testing.T, table string) Job {
	t.Helper()
	return Job{Prompts: WriteTable(t, "prompts.csv", table), Out: filepath.Join(t.TempDir(), "out")}
}

// Rewrite replaces the prompt table of the job.
func (j Job) Rewrite(t *testing.T, table string) {
	t.Helper()
	if err := os.WriteFile(j.Prompts, []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Computes runs the job and checks that it computes exactly want elements.
func (j Job) Computes(t *testing.T, want int64) {
	t.Helper()
	if r := j.MustRun(t); r.Done != want || r.Totals.Pending != 0 {
		t.Errorf("%d elements computed, want %d; %d pending", r.Done, want, r.Totals.Pending)
	}
}

// SameAs checks that the output equals the output of a new run of the job, except for files of rows that are no longer in the
// input. These files must still be there.
func (j Job) SameAs(t *testing.T, fresh Job, stale ...string) {
	t.Helper()
	fresh.MustRun(t)
	wrong := MustRead(t, fresh.Out).Diff(MustRead(t, j.Out))
	var left []string
	for _, name := range stale {
		left = append(left, "left over "+name)
	}
	slices.Sort(left)
	if !slices.Equal(wrong, left) {
		t.Errorf("differs from a new run:\n%s", strings.Join(wrong, "\n"))
	}
}

// Elsewhere returns the same job with another output of the same name.
func (j Job) Elsewhere(t *testing.T) Job {
	t.Helper()
	j.Out = filepath.Join(t.TempDir(), filepath.Base(j.Out))
	return j
}

// InProcess returns the runners that need only this process. It logs which of them the build lacks.
func InProcess(t *testing.T) (all []runners.Runner) {
	t.Helper()
	for _, r := range runners.All() {
		switch {
		case r.Missing != "":
			t.Logf("NOT TESTED: runner %s: %s (make test has the tag)", r.Name, r.Missing)
		case !r.Distributed:
			all = append(all, r)
		}
	}
	return all
}

// NeedPrism skips a test if the build lacks prism.
func NeedPrism(t *testing.T) {
	t.Helper()
	if r, err := runners.Find("prism"); err != nil || r.Missing != "" {
		t.Skip(r.Missing)
	}
}
