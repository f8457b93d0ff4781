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

// preempted is a job whose steps and whose decoding take a second or so each on a core. Steps are saved once a minute, so all that a
// killed run leaves is saved when it is told to end.
const preempted = `version: 1
model: tiny
input: {prompts: prompts.csv}
resources: {workers: 1, batch_size: 1, checkpoint_interval: 1m}
stages: [encode_text, denoise, decode_vae, encode_video]
output: {path: out}
drain_timeout: %v
`

// work is what a run says that it does.
type work struct {
	facts  runfiles.Facts
	stages []string
	step   int // of the batch that is sampled
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
		}
	}
	return w
}

// resumed returns how many steps the last run did not do again.
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

// TestPreemption tells a job to end in each of its phases and kills it after the time that schedulers give. The next run does again at
// most the step that was at work, no step of a row that was behind its sampler, and no row that was finished.
func TestPreemption(t *testing.T) {
	const steps = 6
	graces := []time.Duration{2 * time.Second, 5 * time.Second, 30 * time.Second}
	phases := []string{"encode_text", "denoise", "decode_vae", "publish", "tables"}
	if testing.Short() {
		graces, phases = graces[:1], []string{"denoise", "decode_vae"}
	} else {
		testaid.Long(t, "waits for a job that is told to end, in five phases")
	}
	for _, grace := range graces {
		for _, phase := range phases {
			t.Run(fmt.Sprintf("%s in %v", phase, grace), func(t *testing.T) {
				size, rows := "512,512,17", 2
				if phase == "publish" || phase == "tables" {
					size, rows = "32,32,4", 400
				}
				table := "id,prompt,height,width,num_frames,num_inference_steps\n"
				for i := range rows {
					table += fmt.Sprintf("r%d,a red circle moves left %d,%s,%d\n", i, i, size, steps)
				}
				s := newShell(t, "job.yaml", fmt.Sprintf(preempted, grace/2), "prompts.csv", table)
				r := s.begin("run", "job.yaml")
				var seen work
				r.until(func() bool {
					seen = s.now()
					switch phase {
					case "encode_text":
						return seen.facts.State == runfiles.Running
					case "publish":
						return seen.facts.Rows.Done > 0
					case "tables":
						return int(seen.facts.Rows.Done) == rows
					case "denoise":
						return slices.Contains(seen.stages, phase) && seen.step >= 2
					}
					return slices.Contains(seen.stages, phase)
				})
				done := seen.facts.Rows.Done
				if err := r.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
				killed := false
				select {
				case code := <-r.ended:
					if code != 130 && !(phase == "tables" && code == 0) {
						t.Errorf("exit %d: %s", code, r.out)
					}
				case <-time.After(grace):
					killed = true
					_ = r.process.Kill()
					<-r.ended
				}
				published := int64(s.videos())
				s.run(0, "run", "job.yaml")
				again := s.resumed()
				t.Logf("%s at step %d, %d rows done; killed %v; %d videos then; the next run went on behind %d steps",
					phase, seen.step, done, killed, published, again)
				if published < done || s.videos() != rows {
					t.Errorf("%d videos, %d rows were done; %d in the end", published, done, s.videos())
				}
				if phase == "denoise" && published == 0 && again < seen.step {
					t.Errorf("%d steps were done, the next run went on behind %d", seen.step, again)
				}
				if phase == "decode_vae" && published == 0 && again < steps {
					t.Errorf("a row was behind its sampler, the next run went on behind step %d", again)
				}
				if files, _ := filepath.Glob(filepath.Join(s.dir, "out/ledger/steps/*")); len(files) > 0 {
					t.Errorf("%s are left", strings.Join(files, ", "))
				}
			})
		}
	}
}
