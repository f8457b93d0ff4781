package doctor

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/devices/nvml/gputest"
	"latentbeam/kernels/cuda"
)

var update = flag.Bool("update", false, "write the golden files")

// machine returns the facts of a healthy host without GPUs, after a change.
func machine(change func(f *HostFacts)) HostFacts {
	f := HostFacts{
		Program:   Program{Version: "1.2.3", Go: "go1.26", Platform: "linux/amd64", CUDA: true},
		CPU:       CPU{Name: "AMD EPYC 9654", Class: "cpu/avx512bf16", Cores: 192, Threads: 192},
		Memory:    HostMemory{Total: 1 << 40, Free: 900 << 30, HugePages: "madvise"},
		Output:    OutputFacts{Path: "out", Free: 3 << 40},
		Libraries: wanted(),
	}
	f.GPU.Problem = "CUDA is not available: no usable CUDA driver: libcuda.so.1: cannot open shared object file"
	change(&f)
	return f
}

// with returns a change that adds the GPUs of host. CUDA does not show the hidden ones, which are given by their number.
func with(host *gputest.Host, hidden ...int) func(f *HostFacts) {
	return func(f *HostFacts) {
		g := &f.GPU
		g.Problem, g.CUDA, g.Module = "", "12.4", "550.54.15"
		g.inspect(host)
		for i, d := range g.Survey.Devices {
			if !d.MIG() {
				g.OnBus++
			}
			if d.Divided || slices.Contains(hidden, i) || g.Unanswered[i] != "" {
				continue
			}
			one := cuda.Device{Index: len(g.Devices), UUID: d.UUID, Name: d.Name, Memory: d.Memory, Major: 8}
			if strings.Contains(d.Name, "T4") {
				one.Major, one.Minor = 7, 5
			}
			g.Devices = append(g.Devices, CUDADevice{Device: one})
		}
		for i := range f.Libraries {
			l := &f.Libraries[i]
			if l.Name != ncclName {
				l.Path = "/usr/lib64/" + l.Files[0]
			}
			if l.Name == ltName {
				l.Problem = "not used without LATENTBEAM_CUBLASLT=1"
			}
		}
	}
}

// host is one case of TestMachines.
type host struct {
	name   string // of its golden file
	facts  HostFacts
	broken string // the check that must fail; "": none
}

// withoutGPUs returns hosts without GPUs, or whose GPUs the program cannot use.
func withoutGPUs() []host {
	return []host{
		{"cpu_binary", machine(func(f *HostFacts) { f.Program.CUDA = false }), ""},
		{"cpu_binary_with_gpus", machine(func(f *HostFacts) {
			f.Program.CUDA, f.GPU.OnBus, f.GPU.Module = false, 8, "550.54.15"
		}), ""},
		{"small_cpu", machine(func(f *HostFacts) {
			f.CPU = CPU{Name: "unknown processor", Class: "cpu/go", Cores: 2, Threads: 1}
			f.Memory = HostMemory{Total: 4 << 30, Free: 3 << 30, HugePages: "never"}
			f.Output.Free = 1 << 30
		}), ""},
		{"container", machine(func(f *HostFacts) { f.CPU.Threads = 4 }), ""},
		{"output", machine(func(f *HostFacts) { f.Output.Problem = "permission denied" }), "output"},
		{"no_gpu", machine(func(*HostFacts) {}), ""},
		{"no_driver", machine(func(f *HostFacts) { f.GPU.OnBus = 1 }), ""},
		{"driver_without_libraries", machine(func(f *HostFacts) { f.GPU.OnBus, f.GPU.Module = 1, "550.54.15" }), "CUDA"},
		{"all_hidden", machine(func(f *HostFacts) { f.GPU.OnBus, f.GPU.Module, f.GPU.Hidden = 1, "550.54.15", true }), ""},
	}
}

// withGPUs returns hosts with healthy and with broken GPUs.
func withGPUs() []host {
	return []host{
		{"a100", machine(with(gputest.A100s(8))), ""},
		{"islands", machine(with(gputest.Islands())), ""},
		{"t4", machine(with(gputest.T4s(4))), ""},
		{"mixed", machine(with(gputest.Mixed())), ""},
		{"divided", machine(with(gputest.Divided())), ""},
		{"sick", machine(with(gputest.Sick())), "GPU 3"},
		{"hidden", machine(func(f *HostFacts) { with(gputest.A100s(2), 1)(f); f.GPU.Hidden = true }), ""},
		{"not_shown", machine(with(gputest.A100s(2), 1)), "GPU 1"},
		{"does_not_compute", machine(func(f *HostFacts) {
			with(gputest.A100s(1))(f)
			f.GPU.Devices[0].Problem = "number 3 of a product is 7, the CPU has 2"
		}), "GPU 0"},
		{"too_old", machine(func(f *HostFacts) {
			with(gputest.T4s(2))(f)
			f.GPU.Devices[1].Major, f.GPU.Devices[1].Minor = 6, 1
		}), ""},
		{"all_too_old", machine(func(f *HostFacts) {
			with(gputest.T4s(1))(f)
			f.GPU.Devices[0].Major, f.GPU.Devices[0].Minor = 7, 0
		}), ""},
		{"full", machine(func(f *HostFacts) {
			with(gputest.A100s(1))(f)
			f.GPU.Devices[0].Problem, f.GPU.Devices[0].Full = "CUDA_ERROR_OUT_OF_MEMORY", true
		}), ""},
		{"without_warpgroups", machine(func(f *HostFacts) {
			with(gputest.A100s(2))(f)
			f.GPU.Devices[1].Slow = "gemm_wg_bf16_128: number 0 is 0, by kernels without warpgroups 1.25"
		}), ""},
		{"without_nvml", machine(func(f *HostFacts) {
			with(gputest.T4s(2))(f)
			f.GPU.Survey, f.GPU.NVMLProblem = nil, "no NVIDIA driver: libnvidia-ml.so.1 is not there"
			f.GPU.Devices[1].Problem = "CUDA_ERROR_LAUNCH_FAILED"
		}), "GPU 1"},
		{"no_spare_rows", machine(func(f *HostFacts) {
			host := gputest.A100s(1)
			host.Set(0, func(s *nvml.DeviceStatus) { s.ECC.RemapFailed = true })
			with(host)(f)
		}), "GPU 0"},
	}
}

// TestMachines compares the report about each host with its golden file. A check that finds something missing or broken says what that costs.
func TestMachines(t *testing.T) {
	for _, c := range append(withoutGPUs(), withGPUs()...) {
		t.Run(c.name, func(t *testing.T) {
			r := Examine(c.facts)
			if got := strings.Join(r.Broken(), ", "); got != c.broken || r.OK != (c.broken == "") {
				t.Errorf("broken are %q (OK: %v), want %q", got, r.OK, c.broken)
			}
			var b strings.Builder
			if err := r.Print(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", c.name+".txt"), b.String())
			for _, check := range r.Checks {
				if (check.State == Missing || check.State == Broken) && check.Cost == "" {
					t.Errorf("%s is %s, but its Cost is empty", check.Name, check.State)
				}
			}
		})
	}
}

// golden compares got with a golden file, or writes the file with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || string(want) != got {
		t.Errorf("%s differs (%v; run with -update if the new text is better):\n%s", name, err, got)
	}
}

// TestJSON: the report as JSON has the checks and the facts under the names that programs read.
func TestJSON(t *testing.T) {
	text, err := json.Marshal(Examine(machine(with(gputest.Sick()))))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		OK     bool
		Checks []struct{ Name, State, Found, Cost string }
		Facts  struct {
			GPU struct {
				Devices []struct{ UUID string }
				NVML    struct {
					Devices []struct{ UUID string }
					Links   [][]struct{ NVLinks int }
				}
				Status []struct{ Throttle []string }
			}
		}
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	g := r.Facts.GPU
	if r.OK || len(r.Checks) < 8 || len(g.NVML.Devices) != 4 || g.NVML.Links[0][1].NVLinks != 12 ||
		len(g.Status[0].Throttle) != 2 || g.Devices[0].UUID != gputest.UUID(0) {
		t.Errorf("checks, GPUs, links or throttling are missing in\n%s", text)
	}
}

// TestCollect collects the facts of the host that runs the test. It finds processor, memory and output, and leaves no file behind.
func TestCollect(t *testing.T) {
	dir := t.TempDir()
	f := Collect("1.2.3", filepath.Join(dir, "not", "there", "yet"))
	if f.CPU.Cores < 1 || f.CPU.Threads < 1 || !strings.HasPrefix(f.CPU.Class, "cpu/") || len(f.Libraries) != 6 {
		t.Errorf("processor or libraries are missing: %+v", f)
	}
	if runtime.GOOS == "linux" && (f.Memory.Total < f.Memory.Free || f.Memory.Free <= 0 || f.Output.Free <= 0) {
		t.Errorf("got memory %+v, output %+v; want sizes above 0", f.Memory, f.Output)
	}
	if f.Output.Problem != "" {
		t.Errorf("an output folder that does not exist yet is a problem: %s", f.Output.Problem)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("Collect left %v, %v", left, err)
	}
	var b strings.Builder
	if err := Examine(f).Print(&b); err != nil || !strings.Contains(b.String(), "processor") {
		t.Errorf("the report has no processor: %s, %v", b.String(), err)
	}
}

// TestOutput: a file, and a path below a file, cannot be an output folder.
func TestOutput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if o := room(filepath.Join(file, "out")); o.Problem == "" {
		t.Errorf("a path below a file is no problem: %+v", o)
	}
	if o := room(file); o.Problem != "it is a file" {
		t.Errorf("got the problem %q, want %q", o.Problem, "it is a file")
	}
}

// TestFind: libraries are found in LD_LIBRARY_PATH and in other folders, the newest version first. An environment variable with the path of
// libcuda takes precedence.
func TestFind(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, name := range []string{filepath.Join(dir, "libcublasLt.so.12"), filepath.Join(other, "libcublasLt.so.13"),
		filepath.Join(other, "libnccl.so.2")} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := func(name string) string {
		return map[string]string{"LD_LIBRARY_PATH": dir, "LATENTBEAM_LIBCUDA": "/opt/fake/libcuda.so"}[name]
	}
	paths := map[string]string{}
	for _, l := range find(env, []string{other}) {
		paths[l.Name] = l.Path
	}
	for name, want := range map[string]string{
		"cublasLt": filepath.Join(other, "libcublasLt.so.13"), // the newest, wherever it is
		"NCCL":     filepath.Join(other, "libnccl.so.2"),
		"libcuda":  "/opt/fake/libcuda.so",
		"cuDNN":    "",
	} {
		if paths[name] != want {
			t.Errorf("%s is found at %q, want %q", name, paths[name], want)
		}
	}
}

// TestOpened: the backend's own report about NCCL takes precedence over a file that was found.
func TestOpened(t *testing.T) {
	for _, c := range []struct {
		found string       // path of the file; "": none
		says  cuda.Library // report of the backend
		want  Check
	}{
		{"/a/libnccl.so.2", cuda.Library{Path: "/b/libnccl.so.2", Version: "2.27.3"},
			Check{State: OK, Found: "2.27.3, /b/libnccl.so.2"}},
		{"/a/libnccl.so.2", cuda.Library{Problem: "NCCL is not found: it is too old"},
			Check{State: Missing, Found: "NCCL is not found: it is too old"}},
		{"", cuda.Library{Problem: "NCCL is not found"}, Check{State: Missing, Found: "not found: libnccl.so.2"}},
	} {
		list := []Library{{Name: ncclName, Files: []string{"libnccl.so.2"}, Path: c.found, Cost: "speed"}}
		c.says.Name = "libnccl.so.2"
		opened(list, []cuda.Library{{Name: "libcuda.so.1", Version: "12"}, c.says})
		f := HostFacts{Program: Program{CUDA: true}, GPU: GPU{Devices: []CUDADevice{{}}}, Libraries: list}
		got := libraries(f)[0]
		if got.State != c.want.State || got.Found != c.want.Found || (got.Cost != "") != (got.State == Missing) {
			t.Errorf("file %q, report %+v: got %+v, want %+v", c.found, c.says, got, c.want)
		}
	}
}

// TestCompare: results near {1, 2} fit, others and NaN do not.
func TestCompare(t *testing.T) {
	nan := float32(0)
	nan /= nan
	for _, c := range []struct {
		got  []float32
		fits bool
	}{{[]float32{1, 2}, true}, {[]float32{1, 2.01}, true}, {[]float32{1, 3}, false}, {[]float32{1, nan}, false}} {
		if err := compare(c.got, []float32{1, 2}); (err == nil) != c.fits {
			t.Errorf("compare(%v, {1, 2}) = %v, want equal: %v", c.got, err, c.fits)
		}
	}
}

// TestNumbers: a sorted list of numbers is written with ranges.
func TestNumbers(t *testing.T) {
	for want, set := range map[string][]int{"": nil, "3": {3}, "0-2, 5": {0, 1, 2, 5}, "0-1, 3-4": {0, 1, 3, 4}} {
		if got := numbers(set); got != want {
			t.Errorf("numbers(%v) = %q, want %q", set, got, want)
		}
	}
}
