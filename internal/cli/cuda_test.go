//go:build cuda && linux

package cli

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/schemas"
)

// cudaTolerance is the largest difference of the built-in model's latents on a GPU and on the CPU after two sampling
// steps, relative to their largest value. Both compute in fp32, but add in another order.
const cudaTolerance = 2e-4

const twoPrompts = "prompt\na red circle moves left\na blue square moves up\n"

// latents runs the small job, which must do both rows, and returns their latents by prompt.
func (s shell) latents(name string, sets ...string) map[string]schemas.LatentRow {
	s.t.Helper()
	args := []string{"run", "job.yaml"}
	for _, set := range append(sets, "output.path="+name, "output.write=[video,latents]") {
		args = append(args, "--set", set)
	}
	text := s.run(0, args...)
	of := map[string]schemas.LatentRow{}
	files, _ := filepath.Glob(filepath.Join(s.dir, name, "tables", "latents", "*.parquet"))
	for _, f := range files {
		rows, err := parquet.ReadFile[schemas.LatentRow](f)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, row := range rows {
			of[row.Caption] = row
		}
	}
	videos, _ := filepath.Glob(filepath.Join(s.dir, name, "videos", "*", "*.mp4"))
	if len(of) != 2 || len(videos) != 2 {
		s.t.Fatalf("%s: got latents of %d rows and %d videos:\n%s", name, len(of), len(videos), text)
	}
	return of
}

// TestTinyOnCUDA: a whole job, from prompts to videos, on one device and on a set of two, gives latents near those of the CPU. The devices are those
// that the driver shows, which may be the fake one (kernels/cuda/fake).
func TestTinyOnCUDA(t *testing.T) {
	list, err := cuda.Devices()
	if err != nil {
		if os.Getenv("LATENTBEAM_LIBCUDA") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s := newShell(t, "job.yaml", small, "prompts.csv", twoPrompts)
	want := s.latents("cpu", "resources.device=cpu")
	one := s.latents("one", "resources.device=gpu", "resources.workers=1")
	for caption, row := range one {
		if !strings.HasPrefix(row.Class, list[0].Class()) {
			t.Errorf("%s: the row has class %s, the device %s", caption, row.Class, list[0].Class())
		}
		if d := distance(t, row, want[caption]); !(d < cudaTolerance) {
			t.Errorf("%s: latents differ by %.2g of the largest, want at most %.2g", caption, d, cudaTolerance)
		} else {
			t.Logf("%s: latents differ by %.2g of the largest", caption, d)
		}
	}
	if len(list) < 2 {
		return
	}
	s.same(one, s.latents("two", "resources.device=gpu", "resources.workers=2", "stages.denoise.sequence_parallel=2"))
}

// same checks that two runs gave latents with equal bytes.
func (s shell) same(want, got map[string]schemas.LatentRow) {
	s.t.Helper()
	for caption, row := range want {
		if got[caption].VAELatentSHA256 != row.VAELatentSHA256 {
			s.t.Errorf("%s: the latents have other bytes", caption)
		}
	}
}

// TestHangOnCUDA: if a call of a device's driver does not return, the job waits for the time limit and then goes on:
// the other device computes the batch again, with equal bytes.
func TestHangOnCUDA(t *testing.T) {
	list, err := cuda.Devices()
	if err != nil || len(list) < 2 || !strings.HasPrefix(list[0].Name, "emulated") {
		t.Skip("needs the fake driver with two devices")
	}
	const within = 6 * time.Second // one step in the emulation takes far less than a second
	sets := []string{"resources.device=gpu", "resources.workers=2", "stages.denoise.sequence_parallel=1"}
	s := newShell(t, "job.yaml", small, "prompts.csv", twoPrompts)
	want := s.latents("well", sets...)
	for when, call := range map[string]string{"loading": "cuStreamSynchronize:30", "working": "cuMemcpyDtoHAsync_v2:4"} {
		s.env = []string{"LATENTBEAM_CUDA_PATIENCE=" + within.String(), fmt.Sprintf("FAKE_FAIL=%s:~%d", call, 3_600_000)}
		began := time.Now()
		s.same(want, s.latents(when, sets...))
		if took := time.Since(began); took < within {
			t.Errorf("%s: the job took only %v, so it did not wait for the device", when, took)
		}
	}
}

// TestSetsOnCUDA: sets of three devices, which divides no size of the model, and sets that divide heads, columns or blocks, give the
// bytes of one device, also if the devices cannot access each other's memory.
func TestSetsOnCUDA(t *testing.T) {
	list, err := cuda.Devices()
	if err != nil || !strings.HasPrefix(list[0].Name, "emulated") {
		t.Skip("needs the fake driver")
	}
	s := newShell(t, "job.yaml", small, "prompts.csv", twoPrompts)
	s.env = []string{"FAKE_DEVICES=4"}
	sets := func(workers int, more string) []string {
		return append(strings.Fields(more), "resources.device=gpu", fmt.Sprint("resources.workers=", workers))
	}
	want := s.latents("one", sets(1, "")...)
	for name, run := range map[string][]string{
		"uneven": sets(3, "stages.denoise.sequence_parallel=3 stages.denoise.partition=uneven"),
		"padded": sets(3, "stages.denoise.sequence_parallel=3 stages.denoise.partition=pad"),
		"cut":    sets(3, "stages.denoise.tp_size=3 stages.encode_text.tp_size=2"),
		"grid":   sets(4, "stages.denoise.pp_size=2 stages.denoise.sequence_parallel=2"),
	} {
		s.same(want, s.latents(name, run...))
	}
	s.env = append(s.env, "FAKE_PEERS=0")
	s.same(want, s.latents("strangers", sets(3, "stages.denoise.sequence_parallel=3")...))
}

// TestHostsOnCUDA: a set of two GPUs in two processes, over NCCL, over TCP because NCCL is off, and over TCP because it
// failed in the middle of a batch, gives the bytes of one GPU. The summary says how they exchanged. The failure comes last:
// after one, a worker makes no links for minutes.
func TestHostsOnCUDA(t *testing.T) {
	list, err := cuda.Devices()
	if err != nil || len(list) < 2 || !strings.HasPrefix(list[0].Name, "emulated") {
		t.Skip("needs the fake driver with two devices")
	}
	s := newShell(t, "job.yaml", small, "prompts.csv", twoPrompts, "token", "a token of the test processes\n")
	const unguided = "defaults.guidance_scale=1" // with guidance, each device would compute one of two elements and exchange nothing
	want := s.latents("one", unguided, "resources.device=gpu", "resources.workers=1")
	nccl := "LATENTBEAM_LIBNCCL=" + os.Getenv("LATENTBEAM_LIBCUDA") // the fake driver is also a fake NCCL
	s.env = []string{nccl}
	_, addr := s.startWorker("--device", "gpu", "--workers", "1")
	for _, c := range []struct {
		name, env, set string
		linked         bool
		why            string
	}{
		{name: "nccl", linked: true},
		{name: "off", set: "resources.nccl=off"},
		{name: "failed", env: "FAKE_FAIL=ncclGroupEnd:3:3", linked: true, why: "an exchange has failed"},
	} {
		s.env = []string{nccl}
		if c.env != "" {
			s.env = append(s.env, c.env)
		}
		sets := []string{unguided, "resources.device=gpu", "resources.workers=1", "stages.denoise.sequence_parallel=2",
			"resources.token_file=token", fmt.Sprintf("resources.hosts=[%q]", addr)}
		if c.set != "" {
			sets = append(sets, c.set)
		}
		s.same(want, s.latents(c.name, sets...))
		text, err := os.ReadFile(filepath.Join(s.dir, c.name, "summary.json"))
		if err != nil {
			t.Fatal(err)
		}
		if c.linked != strings.Contains(string(text), `"kind": "NCCL 2.27.3"`) || !strings.Contains(string(text), c.why) {
			t.Errorf("%s: the summary does not say how the ranks exchanged: %s", c.name, text)
		}
	}
}

// distance returns the largest difference of two latents, relative to their largest value.
func distance(t *testing.T, a, b schemas.LatentRow) float64 {
	t.Helper()
	x, y := latentValues(t, a), latentValues(t, b)
	if len(x) != len(y) || len(x) == 0 {
		t.Fatalf("the latents have %d and %d values", len(x), len(y))
	}
	var most, diff float64
	for i := range x {
		most = max(most, math.Abs(y[i]))
		if d := math.Abs(x[i] - y[i]); !(d <= diff) {
			diff = d // also if d is NaN
		}
	}
	return diff / most
}

// latentValues decodes the latents of a row.
func latentValues(t *testing.T, row schemas.LatentRow) []float64 {
	t.Helper()
	size, data := 2, row.VAELatentBytes
	if row.VAELatentDType == "float32" {
		size = 4
	}
	out := make([]float64, len(data)/size)
	for i := range out {
		switch row.VAELatentDType {
		case "float32":
			out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
		case "bfloat16":
			out[i] = float64(kernels.FromBF16(binary.LittleEndian.Uint16(data[2*i:])))
		default:
			t.Fatalf("the latents have the type %s", row.VAELatentDType)
		}
	}
	return out
}
