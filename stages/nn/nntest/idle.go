//go:build linux

package nntest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"latentbeam/kernels"
	"latentbeam/kernels/cuda"
	"latentbeam/stages/weights/safetensors"
)

// HostEnv enables tests of the host's share of the time: "full" with models of published depth, any other value with fewer
// blocks. LATENTBEAM_LIBCUDA must name the stand-in driver.
const HostEnv = "LATENTBEAM_HOST"

// Idle is a backend for a device that computes nothing and whose driver answers at once. So the time of a run is the host's
// share. Its kernels are the kernels for an H200.
type Idle struct {
	kernels.Backend
	// Full selects models of published depth.
	Full   bool
	counts *os.File // the driver's counts of its calls
}

// NewIdle opens the idle device. It must be the first device that the process opens. It skips the test if HostEnv is not set.
func NewIdle(t *testing.T) *Idle {
	t.Helper()
	d := &Idle{Full: os.Getenv(HostEnv) == "full"}
	if os.Getenv(HostEnv) == "" {
		t.Skip("set " + HostEnv + ", or run make -C kernels/cuda host")
	}
	fd, err := unix.MemfdCreate("calls", 0)
	if err != nil {
		t.Fatal(err)
	}
	d.counts = os.NewFile(uintptr(fd), "calls")
	for name, value := range map[string]string{"FAKE_IDLE": "1", "FAKE_ARCH": "90", "FAKE_MEMORY": "150000000000",
		"FAKE_COUNTS": fmt.Sprint("/proc/self/fd/", fd)} {
		t.Setenv(name, value)
	}
	if d.Backend, err = cuda.New(0, cuda.Options{}); err != nil {
		t.Fatal(err)
	}
	if d.Class() != "cuda/sm_90+wgmma" || d.calls(t)["cuLaunchKernel"] == 0 {
		t.Fatalf("%s is not the idle device: LATENTBEAM_LIBCUDA names the stand-in, and one test of a process runs",
			d.Class())
	}
	return d
}

// calls returns how often this process called each function of the driver.
func (d *Idle) calls(t *testing.T) map[string]int {
	t.Helper()
	const slot, name = 64, 56 // bytes of a slot, and of the name at its beginning
	slots := make([]byte, 64*slot)
	if _, err := d.counts.ReadAt(slots, 0); err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for s := range slices.Chunk(slots, slot) {
		call, _, _ := bytes.Cut(s[:name], []byte{0})
		calls[string(call)] = int(binary.LittleEndian.Uint64(s[name:]))
	}
	delete(calls, "")
	return calls
}

// Work is work of a device, such as a step of the sampler.
type Work struct {
	Run    func()
	Units  int            // how often one Run does the work
	Limits map[string]int // allowed number of calls for each driver function; others must not be called
	Target time.Duration  // how long a device may take for it, with Full
}

// Check fails the test if the work calls the driver more often than allowed. With Full it also logs the cost for the host.
func (d *Idle) Check(t *testing.T, w Work) {
	t.Helper()
	calls := d.stabilize(t, w)
	for call, n := range w.needless(calls) {
		t.Errorf("%d calls of %s for %d units of work, at most %d are needed", n, call, w.Units, w.Limits[call]*w.Units)
	}
	maps.DeleteFunc(calls, func(_ string, n int) bool { return n == 0 })
	t.Logf("calls of the driver in %d: %v", w.Units, calls)
	if d.Full {
		d.cost(t, w, calls["cuLaunchKernel"]/w.Units)
	}
}

// stabilize runs the work until several runs in a row make no needless call, and returns the calls of a run. If needless calls
// do not stop, it returns the calls of a run that made some. The first runs load kernels and allocate memory. After a garbage
// collection, calls that do not belong to this work free the memory of earlier tests; so stabilize disables the collector and
// waits until these calls are done.
func (d *Idle) stabilize(t *testing.T, w Work) (calls map[string]int) {
	t.Helper()
	const inARow, most = 3, 30
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for well, runs := 0, 0; runs < most; runs++ {
		before := d.calls(t)
		w.Run()
		made := d.calls(t)
		for call, n := range before {
			made[call] -= n
		}
		if len(w.needless(made)) > 0 {
			well, calls = 0, made
		} else if well++; well == inARow {
			return made
		}
	}
	return calls
}

// needless returns the calls that exceed the limits of the work.
func (w Work) needless(calls map[string]int) map[string]int {
	calls = maps.Clone(calls)
	maps.DeleteFunc(calls, func(call string, n int) bool { return n <= w.Limits[call]*w.Units })
	return calls
}

// cost logs what the work costs the host: its time with a device that takes no time, and its extra time beside a device that is
// busy for the target time.
func (d *Idle) cost(t *testing.T, w Work, launches int) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := cpuTime(t)
	alone, runs := fastest(w.Run)
	cpu = (cpuTime(t) - cpu) / time.Duration(runs*w.Units)
	runtime.ReadMemStats(&after)
	alone /= time.Duration(w.Units)

	pace := w.Target / time.Duration(launches)
	t.Setenv("FAKE_PACE", fmt.Sprint(pace.Nanoseconds()))
	w.Run() // the driver is queried again after a wait
	busy, _ := fastest(w.Run)
	t.Setenv("FAKE_PACE", "")
	w.Run()
	beyond := busy/time.Duration(w.Units) - pace*time.Duration(launches)

	t.Logf("%d launches; host alone %v (%.2f us a launch, CPU %v), beyond a device that takes %v %v (%.1f %%); "+
		"%d allocations, %d KiB", launches, alone, float64(alone.Nanoseconds())/1e3/float64(launches), cpu, w.Target, beyond,
		100*beyond.Seconds()/w.Target.Seconds(), int(after.Mallocs-before.Mallocs)/(runs*w.Units),
		int(after.TotalAlloc-before.TotalAlloc)/(runs*w.Units)>>10)
}

// fastest returns the shortest time of run and the number of runs. It repeats run for seconds, because other work on the
// machine comes and goes.
func fastest(run func()) (least time.Duration, runs int) {
	const lasting, atLeast = 3 * time.Second, 5
	for began := time.Now(); runs < atLeast || time.Since(began) < lasting; runs++ {
		start := time.Now()
		run()
		if wall := time.Since(start); runs == 0 || wall < least {
			least = wall
		}
	}
	return least, runs
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Zeros returns a safetensors file with these tensors in bf16, all zeros, in memory that is allocated only when it is written.
func Zeros(t testing.TB, shapes map[string][]int) *safetensors.File {
	t.Helper()
	tensors := make([]safetensors.TensorInfo, 0, len(shapes))
	size := int64(1 << 20) // names and shapes
	for name, shape := range shapes {
		info := safetensors.TensorInfo{Name: name, DType: "BF16", Shape: shape}
		n, err := info.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		tensors, size = append(tensors, info), size+n
	}
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	file := &sparse{memory: memory}
	err = safetensors.Stream(file, tensors, nil, func(w io.Writer, i safetensors.TensorInfo) error {
		n, _ := i.Bytes()
		_, err := w.Write(memory[size-n:]) // zeros, not copied
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.New(memory[:file.at])
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// sparse is a file in zeroed memory. It does not write zeros.
type sparse struct {
	memory []byte
	at     int
}

func (s *sparse) Write(p []byte) (int, error) {
	if &p[len(p)-1] != &s.memory[len(s.memory)-1] {
		copy(s.memory[s.at:], p)
	}
	s.at += len(p)
	return len(p), nil
}
