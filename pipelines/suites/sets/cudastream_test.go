//go:build cuda && linux

package sets

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"latentbeam/internal/dev/jobtest"
	"latentbeam/internal/devices/nvml"
	"latentbeam/kernels/cuda"
	"latentbeam/schemas"
)

// TestWeightsPassOnCUDA: if a CUDA device has less memory during a job than it reported before, the job streams blocks through it, and the latents
// are equal. The test needs the stand-in driver, whose memory it can set.
func TestWeightsPassOnCUDA(t *testing.T) {
	list, err := cuda.Devices()
	if err != nil || !strings.HasPrefix(list[0].Name, "emulated") {
		t.Skip("needs the stand-in driver: ", err)
	}
	t.Setenv(nvml.ClaimsEnv, t.TempDir()) // other tests have stand-ins of their own
	prompts := jobtest.WriteTable(t, "prompts.csv", "prompt\na red circle moves left\n")
	run := func(name string, room int64) schemas.LatentRow {
		t.Setenv("FAKE_MEMORY", "")
		out := filepath.Join(t.TempDir(), name)
		j := jobtest.Job{Prompts: prompts, Out: out, Stages: "[encode_text, denoise]", Sets: []string{"output.write=[latents]",
			"resources.device=gpu", "resources.workers=1", "defaults.height=32", "defaults.width=32",
			"defaults.num_frames=4", "defaults.max_sequence_length=16"}}
		opened, err := j.Open()
		jobtest.Must(t, err)
		defer opened.Close()
		if room > 0 {
			free, total := settled(t)
			t.Setenv("FAKE_MEMORY", strconv.FormatInt(total-free+room, 10))
		}
		r, err := opened.Run(t.Context(), nil)
		jobtest.Must(t, err)
		for _, f := range jobtest.ReadRows[schemas.FailureRow](t, out, "failures") {
			t.Errorf("%s: %s", f.Stage, f.Message)
		}
		if r.Totals.Done != 1 {
			t.Fatalf("%s: got totals %+v", name, r.Totals)
		}
		summary, err := os.ReadFile(filepath.Join(out, "summary.json"))
		jobtest.Must(t, err)
		if short := strings.Contains(string(summary), `"one_did_not_fit": true`); short != (room > 0) {
			t.Errorf("%s: an element did not fit: %v", name, short)
		}
		return jobtest.ReadRows[schemas.LatentRow](t, out, "latents")[0]
	}
	want := run("large", 0)
	if got := run("small", 60_000); got.VAELatentSHA256 != want.VAELatentSHA256 {
		t.Error("the latents differ when blocks are streamed")
	}
}

// settled returns the memory of the first device, after garbage collection until it frees no more of it.
func settled(t *testing.T) (free, total int64) {
	for same := 0; same < 4; {
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
		now, all, err := cuda.MemInfo(0)
		jobtest.Must(t, err)
		if same++; now != free {
			same = 0
		}
		free, total = now, all
	}
	return free, total
}
