//go:build cuda && linux

package cuda_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"latentbeam/internal/system/testaid"
	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/schemas/fault"
)

// gpuFaults are the injected faults: an error code of the driver, with ! if it also ends the context, or ~ and milliseconds of delay.
var gpuFaults = []string{"2", "214", "214!", "220!", "46", "700!", "702!", "710!", "719!", "999!", "~30"}

// gpuCalls are the calls of the driver that get a fault, and how often productOf makes each of them. FAKE_COUNTS makes the fake driver print
// these numbers.
var gpuCalls = []struct {
	name  string
	times int
}{{"cuLaunchKernel", 16}, {"cuMemcpyHtoDAsync_v2", 1}, {"cuMemcpyDtoHAsync_v2", 1}, {"cuMemAlloc_v2", 1}, {"cuMemHostAlloc", 1},
	{"cuStreamCreate", 1}, {"cuEventCreate", 1}, {"cuEventRecord", 1}, {"cuEventSynchronize", 1}}

// productOf transposes a matrix and applies SiLU to it, eight times, and returns the result.
func productOf(b kernels.Backend) ([]float32, error) {
	defer b.Scope()()
	const n = 24
	x, y, out := b.Alloc(kernels.F32, n, n), b.Alloc(kernels.F32, n, n), make([]float32, n*n)
	values := make([]float32, n*n)
	for i := range values {
		values[i] = float32(i%7) - 3
	}
	b.Upload(x, values)
	for range 8 {
		b.Copy(y, x.Permute(1, 0))
		b.Unary(x, y, kernels.SiLU)
	}
	return out, b.Download(out, x)
}

// TestPromiseP10: if a call of a device fails, only the current computation fails. The error has the right class, no wrong number is
// returned, and the next backend on the device computes the right result. LATENTBEAM_GPU_SCHEDULES is the number of schedules.
func TestPromiseP10(t *testing.T) {
	onFake(t)
	want, err := productOf(fresh(t, 0, cuda.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	n := testaid.Count(t, "LATENTBEAM_GPU_SCHEDULES", 60)
	random := rand.New(rand.NewPCG(10, uint64(n)))
	failed, slow, met := 0, 0, map[string]int{}
	for range n {
		code := gpuFaults[random.IntN(len(gpuFaults))]
		call := gpuCalls[random.IntN(len(gpuCalls))]
		schedule := fmt.Sprintf("%s:%d:%s", call.name, 1+random.IntN(call.times), code)
		t.Setenv("FAKE_FAIL", schedule)
		var got []float32
		b, err := cuda.New(0, cuda.Options{})
		if err == nil {
			got, err = productOf(b)
		}
		switch {
		case err == nil && !slices.Equal(got, want):
			t.Errorf("%s: got wrong numbers without an error", schedule)
		case err == nil:
			slow++
		case fault.ClassOf(err) == fault.ClassRow:
			t.Errorf("%s: the error %v is of class row, although the device failed", schedule, err)
		case code == "2" && !fault.IsOutOfMemory(err):
			t.Errorf("%s: the error %v is not marked as out of memory", schedule, err)
		default:
			failed++
			met[code]++
		}
		t.Setenv("FAKE_FAIL", "")
		again, err := productOf(fresh(t, 0, cuda.Options{}))
		if err != nil || !slices.Equal(again, want) {
			t.Errorf("%s: the next backend gives wrong numbers, or the error %v", schedule, err)
		}
	}
	if failed < n/8 || len(met) < 5 { // too few schedules hit a call that the computation makes
		t.Errorf("only %d of %d schedules failed a computation, by %d kinds of faults: too few for a proof", failed, n, len(met))
	}
	t.Logf("P10: %d schedules of faults of the driver, %d failed a computation (%d kinds), %d passed it by; no wrong number, every next "+
		"computation right", n, failed, len(met), slow)
}
