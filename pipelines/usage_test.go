package pipelines_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/engine"
)

// kernelsOf reads summary.json. It returns the time of each stage, and the kernels by stage and name.
func kernelsOf(t *testing.T, j jobtest.Job) (busy map[string]engine.StageTime, kernels map[string]engine.KernelTime) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(j.Out, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var summary struct {
		Run struct{ Stages []engine.StageTime }
	}
	if err := json.Unmarshal(data, &summary); err != nil {
		t.Fatal(err)
	}
	busy, kernels = map[string]engine.StageTime{}, map[string]engine.KernelTime{}
	for _, s := range summary.Run.Stages {
		busy[s.Stage] = s
		for _, k := range s.Kernels {
			kernels[s.Stage+" "+k.Kernel] = k
		}
	}
	return busy, kernels
}

// TestSummarySaysWhereTimeWent: the summary has the kernels of every stage, their times are at most the stage's time, and
// the amount of their work does not depend on how rows were divided.
func TestSummarySaysWhereTimeWent(t *testing.T) {
	one, two := jobtest.NewJob(t, jobtest.RerunTable), jobtest.NewJob(t, jobtest.RerunTable)
	two.Sets = []string{"resources.workers=2", "resources.batch_size=1"}
	one.MustRun(t)
	two.MustRun(t)
	busy, first := kernelsOf(t, one)
	_, second := kernelsOf(t, two)
	for _, name := range []string{"encode_text linear", "encode_text attention", "denoise linear", "denoise attention",
		"denoise norm", "denoise transfer", "decode_vae conv", "decode_vae norm", "decode_vae transfer"} {
		k := first[name]
		if k.Calls == 0 || k.Busy <= 0 || k.Bytes == 0 || k.Moved <= 0 || (k.FLOP > 0) != (k.Rate > 0) {
			t.Errorf("the counts of kernel %s are not plausible: %+v", name, k)
		}
		if k.FLOP != second[name].FLOP {
			t.Errorf("%s: %g FLOP on one worker, but %g on two", name, k.FLOP, second[name].FLOP)
		}
	}
	for stage, s := range busy {
		for _, k := range s.Kernels {
			s.Busy -= k.Busy
		}
		if s.Busy < 0 {
			t.Errorf("%s: the kernels took %v longer than the stage", stage, -s.Busy)
		}
	}
	if len(busy["guard"].Kernels)+len(busy["encode_video"].Kernels) > 0 {
		t.Error("stages without a device have kernels")
	}
}
