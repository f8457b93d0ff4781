package doctor

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/system"
	"latentbeam/kernels/cpu"
	"latentbeam/kernels/cuda"
	"latentbeam/schemas/fault"
)

// Collect looks at this machine. dir is where a job's output would go; version is the program's.
func Collect(version, dir string) HostFacts {
	f := HostFacts{
		Program: Program{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
			CUDA: nvml.Built},
		CPU: CPU{Name: cmp.Or(field("/proc/cpuinfo", "model name"), "unknown processor"), Class: cpu.New(1).Class(), By: cpu.Computes(),
			Cores:   runtime.NumCPU(),
			Threads: runtime.GOMAXPROCS(0)},
		Memory:    hostMemory(),
		Bound:     programMemory(),
		Output:    room(dir),
		GPU:       hardware(),
		Libraries: find(os.Getenv, searched()),
	}
	f.GPU.survey()
	f.GPU.probe()
	if len(f.GPU.Devices) > 0 {
		opened(f.Libraries, cuda.Libraries())
	}
	return f
}

// survey asks NVML.
func (g *GPU) survey() {
	host, err := nvml.Open()
	if err != nil {
		g.NVMLProblem = err.Error()
		return
	}
	defer host.Close()
	g.inspect(host)
}

// inspect takes down what a host says of its devices.
func (g *GPU) inspect(host nvml.Host) {
	s, err := host.Survey()
	if err != nil {
		g.NVMLProblem = err.Error()
		return
	}
	g.Survey = &s
	for _, d := range s.Devices {
		status, err := host.Status(d.UUID)
		why := ""
		if err != nil {
			why = err.Error()
		}
		g.Status, g.Unanswered = append(g.Status, status), append(g.Unanswered, why)
	}
}

// probe asks CUDA, and lets each device compute something.
func (g *GPU) probe() {
	devices, err := cuda.Devices()
	if err != nil {
		g.Problem = err.Error()
		return
	}
	g.CUDA, _ = cuda.DriverVersion() // there are devices: it was asked
	for _, d := range devices {
		one := CUDADevice{Device: d}
		if d.TooOld() != "" {
			g.Devices = append(g.Devices, one)
			continue
		}
		if err := try(d.Index); err != nil {
			one.Problem, one.Full = err.Error(), fault.IsOutOfMemory(err)
		}
		one.Slow = d.WithoutWarpgroups() // decided when it was tried
		g.Devices = append(g.Devices, one)
	}
}

// room looks at the directory of the output, or at the nearest one above it that is there.
func room(dir string) OutputFacts {
	o := OutputFacts{Path: dir}
	at, err := filepath.Abs(dir)
	for err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(at); err == nil && !info.IsDir() {
			err = errors.New("it is a file")
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		at, err = filepath.Dir(at), nil
	}
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(at, ".latentbeam-doctor-*"); err == nil {
			probe.Close()
			err = os.Remove(probe.Name())
		}
	}
	if err != nil {
		o.Problem = err.Error()
		return o
	}
	o.Free, _ = system.FreeBytes(at)
	return o
}

// field returns the value of the first line of a file that reads "key : value".
func field(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		name, value, ok := strings.Cut(s.Text(), ":")
		if ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// kib reads a value such as "16384 kB".
func kib(text string) int64 {
	var n int64
	if _, err := fmt.Sscanf(text, "%d kB", &n); err != nil {
		return 0
	}
	return n << 10
}
