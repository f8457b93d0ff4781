//go:build unix

package restarts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
	"latentbeam/stages/catalog"
)

// stepsTable has one row with 50 sampling steps.
const stepsTable = "id,prompt,width,height,num_frames\na,a red circle moves left,48,32,5\n"

// stepsSets make the job save after each step.
var stepsSets = []string{"defaults.num_inference_steps=50", "resources.checkpoint_interval=1step"}

// TestKillAtEveryStep kills a job of 50 steps after each step, or after LATENTBEAM_STEP_KILLS of them. The next run resumes
// after that step, on another set of workers, on this host or on others. The result is equal, and no saved steps remain.
func TestKillAtEveryStep(t *testing.T) {
	testaid.Long(t, "kills processes")
	table := jobtest.WriteTable(t, "prompts.csv", stepsTable)
	whole := &crashJob{Life: jobtest.Life{Prompts: table, Sets: stepsSets}}
	whole.Out = whole.fresh(t)
	cmd, text := whole.Start(t)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("undisturbed run: %v: %s", err, text)
	}
	var hits map[string]int
	jobtest.Must(t, json.Unmarshal([]byte(text.String()), &hits))
	if hits[fault.StepsKept] != 49 {
		t.Fatalf("the undisturbed run has saved its steps %d times, want 49", hits[fault.StepsKept])
	}
	want := jobtest.MustRead(t, whole.Out)
	if n := len(want.Rows["videos"]); n != 1 || steps(t, whole.Out) != 0 {
		t.Fatalf("the undisturbed run has %d videos and %d resumed steps", n, steps(t, whole.Out))
	}
	token := jobtest.TokenFile(t, jobtest.WorkerToken)
	addr, stop := jobtest.StartWorker(t, token, 2, append(catalog.All(), jobtest.Specs(jobtest.PauseSpec(0))...))
	defer stop()
	elsewhere := jobtest.Job{}.OnHosts(token, "resources.workers=0 stages.denoise.sequence_parallel=2", addr).Sets
	ways := [][]string{
		nil,
		{"resources.workers=2", "stages.denoise.sequence_parallel=2"},
		{"resources.workers=3", "stages.denoise.sequence_parallel=3", "resources.threads=1"},
		{"resources.workers=2", "stages.denoise.pp_size=2"},
		elsewhere,
	}
	skipped, kills := 0, spread(49, testaid.Count(t, "LATENTBEAM_STEP_KILLS", 16))
	for i, step := range kills {
		l := whole.at(fault.StepsKept, step)
		l.Out = whole.fresh(t)
		if i%5 == 4 { // the steps run on another host, and the job that submitted them is killed
			l.Sets = append(slices.Clone(stepsSets), jobtest.Job{}.OnHosts(token, "resources.workers=0", addr).Sets...)
		}
		cmd, text := l.Start(t)
		if err := cmd.Wait(); !jobtest.Killed(err) {
			t.Fatalf("the run was not killed after step %d: %v: %s", step, err, text)
		}
		left := l.Job()
		left.Sets = append(slices.Clone(stepsSets), ways[i%len(ways)]...)
		left.Stages = strings.Replace(left.Stages, "denoise", "denoise: {}", 1)
		left.MustRun(t)
		resumed := steps(t, l.Out)
		skipped += resumed
		if wrong := want.Diff(jobtest.MustRead(t, l.Out)); wrong != nil || resumed != step {
			t.Errorf("killed after step %d, resumed with %v: %d steps were skipped\n%s", step, ways[i%len(ways)], resumed,
				strings.Join(wrong, "\n"))
		}
		if files, _ := filepath.Glob(filepath.Join(l.Out, "ledger", "steps", "*")); len(files) > 0 {
			t.Errorf("the run has left saved steps %v", files)
		}
	}
	t.Logf("P1: %d kills, each after another of 49 steps, resumed on other sets: the same bytes, %d steps were not done again",
		len(kills), skipped)
}

// steps returns how many steps a run did not compute again, from its summary.
func steps(t *testing.T, out string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(out, "summary.json"))
	jobtest.Must(t, err)
	var summary struct {
		Run struct {
			Resumed int `json:"steps_resumed"`
		} `json:"run"`
	}
	jobtest.Must(t, json.Unmarshal(data, &summary))
	return summary.Run.Resumed
}

// TestDamagedSteps: saved steps that are damaged, truncated or of another row are ignored with a warning, and removed.
func TestDamagedSteps(t *testing.T) {
	testaid.Long(t, "kills a process")
	table := jobtest.WriteTable(t, "prompts.csv", stepsTable)
	whole := &crashJob{Life: jobtest.Life{Prompts: table, Sets: stepsSets}}
	whole.Out = whole.fresh(t)
	jobtest.Must(t, func() error { _, err := whole.Job().Run(); return err }())
	want := jobtest.MustRead(t, whole.Out)
	l := whole.at(fault.StepsKept, 7)
	l.Out = whole.fresh(t)
	cmd, _ := l.Start(t)
	if err := cmd.Wait(); !jobtest.Killed(err) {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(l.Out, "ledger", "steps", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	jobtest.Must(t, err)
	for name, change := range map[string]func() []byte{
		"as it was":       func() []byte { return data },
		"a bit":           func() []byte { d := slices.Clone(data); d[len(d)-3] ^= 4; return d },
		"its end":         func() []byte { return data[:len(data)/2] },
		"empty":           func() []byte { return nil },
		"another step":    func() []byte { return []byte(strings.Replace(string(data), `"step":"7"`, `"step":"8"`, 1)) },
		"another class":   func() []byte { return []byte(strings.Replace(string(data), `"class":"cpu`, `"class":"gpu`, 1)) },
		"another sampler": func() []byte { return []byte(strings.Replace(string(data), `"scheduler":"`, `"scheduler":"x`, 1)) },
	} {
		at := jobtest.Life{Prompts: table, Sets: stepsSets, Out: whole.fresh(t)}
		jobtest.Must(t, os.CopyFS(at.Out, os.DirFS(l.Out)))
		jobtest.Must(t, os.WriteFile(filepath.Join(at.Out, "ledger", "steps", filepath.Base(files[0])), change(), 0o644))
		jobtest.Must(t, os.WriteFile(filepath.Join(at.Out, "ledger", "steps", fmt.Sprintf("%064x.safetensors", 5)), data, 0o644))
		at.Job().MustRun(t)
		resumed := 0
		if name == "as it was" {
			resumed = 7
		}
		if wrong := want.Diff(jobtest.MustRead(t, at.Out)); wrong != nil || steps(t, at.Out) != resumed {
			t.Errorf("%s: %d steps were skipped, want %d\n%s", name, steps(t, at.Out), resumed, strings.Join(wrong, "\n"))
		}
		if left, _ := filepath.Glob(filepath.Join(at.Out, "ledger", "steps", "*")); len(left) > 0 {
			t.Errorf("%s: the run has left saved steps %v", name, left)
		}
	}
}
