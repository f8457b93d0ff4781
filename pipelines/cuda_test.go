//go:build cuda && linux

package pipelines_test

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/schemas"
)

// cudaTolerance is how far latents of the built-in model on a GPU may be from those on the CPU after two sampling
// steps, relative to their largest value: the models compute in fp32 on both, in another order.
const cudaTolerance = 2e-4

// TestTinyOnCUDA: a whole job, from prompts to videos, on one device and on a set of two. The devices are those
// that the driver shows, which may be the stand-in (kernels/cuda/fake).
func TestTinyOnCUDA(t *testing.T) {
	list, err := cuda.Devices()
	if err != nil {
		if os.Getenv("LATENTBEAM_LIBCUDA") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	prompts := writeTable(t, "prompts.csv", "prompt\na red circle moves left\na blue square moves up\n")
	run := func(name string, sets ...string) (map[string]schemas.LatentRow, string) {
		out := filepath.Join(t.TempDir(), name)
		j := job{prompts: prompts, out: out, sets: append(sets, "output.write=[video,latents]")}
		if r := j.mustRun(t); r.Totals.Done != 2 || r.Totals.Failed != 0 {
			t.Fatalf("%s: %+v", name, r.Totals)
		}
		rows := map[string]schemas.LatentRow{}
		for _, row := range readRows[schemas.LatentRow](t, out, "latents") {
			rows[row.Caption] = row
		}
		videos, _ := filepath.Glob(filepath.Join(out, "videos", "*", "*.mp4"))
		if len(rows) != 2 || len(videos) != 2 {
			t.Fatalf("%s: %d rows of latents, %d videos", name, len(rows), len(videos))
		}
		return rows, out
	}
	want, _ := run("cpu", "resources.device=cpu")
	one, _ := run("one", "resources.device=gpu", "resources.workers=1")
	for caption, row := range one {
		if !strings.HasPrefix(row.Class, list[0].Class()) {
			t.Errorf("%s: class %s on a device of class %s", caption, row.Class, list[0].Class())
		}
		if d := distance(t, row, want[caption]); !(d < cudaTolerance) {
			t.Errorf("%s: latents differ by %.2g of the largest, more than %.2g", caption, d, cudaTolerance)
		} else {
			t.Logf("%s: latents differ by %.2g of the largest", caption, d)
		}
	}
	if len(list) < 2 {
		return
	}
	set, _ := run("two", "resources.device=gpu", "resources.workers=2", "stages.denoise.sequence_parallel=2")
	for caption, row := range set {
		if row.VAELatentSHA256 != one[caption].VAELatentSHA256 {
			t.Errorf("%s: other bytes on two devices than on one", caption)
		}
	}
}

// distance is the largest difference of two latents relative to the largest value.
func distance(t *testing.T, a, b schemas.LatentRow) float64 {
	t.Helper()
	x, y := latentValues(t, a), latentValues(t, b)
	if len(x) != len(y) || len(x) == 0 {
		t.Fatalf("latents of %d and %d values", len(x), len(y))
	}
	var most, diff float64
	for i := range x {
		most = max(most, math.Abs(y[i]))
		if d := math.Abs(x[i] - y[i]); !(d <= diff) {
			diff = d // NaN too
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
			t.Fatalf("latents of type %s", row.VAELatentDType)
		}
	}
	return out
}
