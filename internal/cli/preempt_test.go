//go:build unix

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"latentbeam/internal/storage/store/dir"
	"latentbeam/internal/system/testaid"
	"latentbeam/internal/watch/progress"
	"latentbeam/internal/watch/runfiles"
)

// preempted is a job in which a step and a decoding take about a second on a core. Steps are saved once a minute, so a run that is
// killed earlier has saved only what it saves when it is told to end.
const preempted = `version: 1
model: tiny
input: {prompts: prompts.csv}
resources: {%s, batch_size: 1, memory: 2GB, checkpoint_interval: 1m}
stages: [encode_text, denoise: %s, decode_vae, encode_video]
output: {path: out}
drain_timeout: %v
`

// work is what the facts of a run say about its progress.
type work struct {
	facts  runfiles.Facts
	stages []string
	step   int // last step of the batch that is sampled
	// sampled is how long a batch has been sampled.
	sampled time.Duration
}

// now reads the facts of the run.
func (s shell) now() (w work) {
	d, err := dir.OpenExisting(filepath.Join(s.dir, "out"))
	if err != nil {
		return w
	}
	defer d.Close()
	st, err := progress.Read(s.t.Context(), d, "")
	if err != nil || len(st.Processes) == 0 {
		return w
	}
	w.facts = st.Processes[0].Facts
	for _, b := range w.facts.Batches {
		if b.Device != "" {
			w.stages = append(w.stages, b.Stage)
			w.step = max(w.step, b.Step)
			if b.Stage == "denoise" {
				w.sampled = time.Since(b.Begun)
			}
		}
	}
	return w
}

// resumed returns how many steps the last run did not compute because they were saved.
func (s shell) resumed() int {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "out/summary.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	var summary struct {
		Run struct {
			Resumed int `json:"steps_resumed"`
		}
	}
	if err := json.Unmarshal(data, &summary); err != nil {
		s.t.Fatal(err)
	}
	return summary.Run.Resumed
}

// glob returns the files below the directory that match a pattern.
func (s shell) glob(pattern string) []string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, pattern))
	if err != nil {
		s.t.Fatal(err)
	}
	return files
}

// preemption is a phase of a job in which it gets SIGTERM.
type preemption struct {
	name      string
	resources string
	denoise   string // options
	host      bool   // all devices belong to a worker process
	env       string
	rows      int
	size      string // size of a row; a step of a large row takes a second
	steps     int
	reached   func(s shell, now work) bool
}

// at returns a condition: a stage is at work.
func at(stage string) func(shell, work) bool {
	return func(_ shell, now work) bool { return slices.Contains(now.stages, stage) }
}

// sampling is a condition: two steps are done.
func sampling(_ shell, now work) bool { return slices.Contains(now.stages, "denoise") && now.step >= 2 }

const (
	small32  = "32,32,4"
	large384 = "384,384,17"
)

var preemptions = []preemption{
	{name: "encode_text", resources: "workers: 1", rows: 2, size: large384, steps: 6,
		reached: func(_ shell, now work) bool { return now.facts.State == runfiles.Running }},
	{name: "denoise", resources: "workers: 1", rows: 1, size: "128,128,9", steps: 60, reached: sampling},
	{name: "denoise on a set", resources: "workers: 2", denoise: "sequence_parallel: 2", rows: 1, size: large384, steps: 6,
		reached: sampling},
	{name: "denoise on a host", resources: "workers: 0", denoise: "sequence_parallel: 2", host: true, rows: 1, size: "128,128,17", steps: 100,
		reached: func(_ shell, now work) bool { return now.sampled > time.Second }},
	{name: "decode_vae", resources: "workers: 1", rows: 2, size: large384, steps: 6, reached: at("decode_vae")},
	{name: "publish", resources: "workers: 1", rows: 400, size: small32, steps: 6,
		reached: func(_ shell, now work) bool { return now.facts.Rows.Done > 0 }},
	{name: "encode_video", resources: "workers: 1", rows: 400, size: small32, steps: 6, env: slowVideos + "=300ms",
		reached: func(s shell, _ work) bool { return len(s.glob("out/videos/*/.tmp-*")) > 0 }},
	{name: "tables", resources: "workers: 1", rows: 400, size: small32, steps: 6, env: slowTables + "=3s",
		reached: func(s shell, now work) bool {
			return now.facts.Rows.Done == 400 && len(s.glob("out/tables/*/.tmp-*")) > 0
		}},
}

// TestPreemption sends SIGTERM to a job in each of its phases and kills it after the grace period of a scheduler. The next run repeats
// at most the step that was interrupted, no step of a row that had left its sampler, and no finished row.
// LATENTBEAM_GRACES is the number of grace periods that are tried in all phases, the shortest first; without it sampling alone is tried.
// TestStoppingSavesOnHosts in pipelines/suites/restarts and TestStoppingSavesOnSets in stages/diffuse show the same without a clock.
func TestPreemption(t *testing.T) {
	graces := []time.Duration{2 * time.Second, 5 * time.Second, 30 * time.Second}
	tried, phases := testaid.Count(t, "LATENTBEAM_GRACES", 0), preemptions
	if tried == 0 {
		tried, phases = 1, slices.DeleteFunc(slices.Clone(preemptions), func(p preemption) bool { return p.name != "denoise" })
	}
	graces = graces[:min(len(graces), tried)]
	for _, grace := range graces {
		for _, phase := range phases {
			t.Run(fmt.Sprintf("%s in %v", phase.name, grace), func(t *testing.T) { phase.in(t, grace) })
		}
	}
	if !t.Failed() {
		t.Logf("P1: told to end in %d phases with %v left: no finished row, and at most the step at work was lost", len(phases), graces)
	}
}

// in sends SIGTERM to a job in the phase, kills it after the grace period and runs it again.
func (p preemption) in(t *testing.T, grace time.Duration) {
	rows := p.rows
	table := "id,prompt,height,width,num_frames,num_inference_steps\n"
	for i := range rows {
		table += fmt.Sprintf("r%d,a red circle moves left %d,%s,%d\n", i, i, p.size, p.steps)
	}
	s := newShell(t, "prompts.csv", table, "token", "a secret of the tests")
	resources := p.resources
	if p.host {
		_, addr := s.startWorker("--workers", "2", "--threads", "2")
		resources += fmt.Sprintf(", hosts: [%q], token_file: token", addr)
	}
	s.write("job.yaml", fmt.Sprintf(preempted, resources, "{"+p.denoise+"}", grace/2))
	slow := s
	slow.env = append(slices.Clone(s.env), p.env)
	r := slow.begin("run", "job.yaml")
	var seen work
	r.until(func() bool { seen = s.now(); return p.reached(s, seen) })
	done := seen.facts.Rows.Done
	told := time.Now()
	if err := r.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	killed := false
	select {
	case code := <-r.ended:
		if code != 130 && !(code == 0 && s.videos() == rows) {
			t.Errorf("got exit code %d: %s", code, r.out)
		}
	case <-time.After(grace):
		killed = true
		_ = r.process.Kill()
		<-r.ended
	}
	took := time.Since(told)
	published := int64(s.videos())
	if p.name == "tables" { // all is done: the next run computes nothing
		s.says(s.run(0, "run", "job.yaml"), fmt.Sprintf("0 to do, %d done before", rows))
	} else {
		s.run(0, "run", "job.yaml")
	}
	resumed := s.resumed()
	t.Logf("%s at step %d, %d rows done; killed %v after %.1fs; %d videos then; the next run went on behind %d steps",
		p.name, seen.step, done, killed, took.Seconds(), published, resumed)
	if published < done || s.videos() != rows {
		t.Errorf("after the kill there were %d videos of %d done rows, in the end %d", published, done, s.videos())
	}
	if seen.step > 0 && published == 0 && resumed < seen.step {
		t.Errorf("%d steps were done, but the next run resumed after %d", seen.step, resumed)
	}
	if p.host && published == 0 && resumed == 0 {
		t.Error("a worker had sampled for a second, but the next run started over")
	}
	if p.name == "decode_vae" && published == 0 && resumed < p.steps {
		t.Errorf("a row had left its sampler, but the next run resumed after step %d", resumed)
	}
	if files := s.glob("out/ledger/steps/*"); len(files) > 0 {
		t.Errorf("the run has left %s", strings.Join(files, ", "))
	}
}
