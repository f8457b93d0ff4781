//go:build cuda && linux

package pipelines_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/schemas"
)

// TestHangOnCUDA: a device whose driver does not come back any more costs the time that it is given, and not the job:
// its batch is done on the other device, with the bytes that it has without the accident.
func TestHangOnCUDA(t *testing.T) {
	list, err := cuda.Devices()
	if err != nil || len(list) < 2 || !strings.HasPrefix(list[0].Name, "emulated") {
		t.Skip("needs the stand-in driver with two devices")
	}
	prompts := writeTable(t, "prompts.csv", "prompt\na red circle moves left\na blue square moves up\n")
	hashes := func(name string) map[string]string {
		out := filepath.Join(t.TempDir(), name)
		j := job{prompts: prompts, out: out, sets: []string{"resources.device=gpu", "resources.workers=2",
			"stages.denoise.sequence_parallel=1", "output.write=[video,latents]"}}
		if r := j.mustRun(t); r.Totals.Done != 2 || r.Totals.Failed != 0 {
			t.Fatalf("%s: %+v", name, r.Totals)
		}
		of := map[string]string{}
		for _, row := range readRows[schemas.LatentRow](t, out, "latents") {
			of[row.Caption] = row.VAELatentSHA256
		}
		return of
	}
	const within, hang = 6 * time.Second, 10 * time.Second // one step in the emulation takes far less than a second
	t.Setenv(cuda.EnvPatience, within.String())
	for i := range list[:2] { // so that they are opened with it
		breakContext(t, i)
	}
	want := hashes("well")
	for when, call := range map[string]string{"loading": "cuStreamSynchronize:30", "working": "cuMemcpyDtoHAsync_v2:4"} {
		t.Setenv("FAKE_FAIL", fmt.Sprintf("%s:~%d", call, hang.Milliseconds()))
		began := time.Now()
		got := hashes(when)
		if took := time.Since(began); took < within {
			t.Errorf("%s: the job took %v: no device was waited for", when, took)
		}
		for caption, hash := range want {
			if got[caption] != hash {
				t.Errorf("%s: other bytes of %q", when, caption)
			}
		}
		time.Sleep(time.Until(began.Add(hang + 5*time.Second))) // the device comes back
	}
}

// breakContext ends the context of a device of the stand-in, so that the next backend opens it anew.
func breakContext(t *testing.T, device int) {
	t.Helper()
	be, err := cuda.New(device, cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKE_FAIL", "cuStreamSynchronize:1:700!")
	defer t.Setenv("FAKE_FAIL", "")
	defer be.Scope()()
	be.Upload(be.Alloc(kernels.F32, 4), make([]float32, 4))
	if be.Wait() == nil {
		t.Fatal("the stand-in did not fail")
	}
}
