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

// Collect gathers facts about this machine. dir is the directory of a job's output; version is the program's version.
func Collect(version, dir string) HostFacts {
	f := HostFacts{
		Program: Program{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
			CUDA: nvml.Built},
		CPU: CPU{Name: cmp.Or(system.ProcessorName(), "unknown processor"), Class: cpu.New(1).Class(), By: cpu.Computes(),
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

// inspect records a host's description of its devices.
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

// probe asks CUDA for its devices, and runs a small computation on each.
func (g *GPU) probe() {
	devices, err := cuda.Devices()
	if err != nil {
		g.Problem = err.Error()
		return
	}
	g.CUDA, _ = cuda.DriverVersion() // the driver has answered already
	for _, d := range devices {
		one := CUDADevice{Device: d}
		if d.TooOld() != "" {
			g.Devices = append(g.Devices, one)
			continue
		}
		if err := try(d.Index); err != nil {
			one.Problem, one.Full = err.Error(), fault.IsOutOfMemory(err)
		}
		one.Slow = d.WithoutWarpgroups() // known only after try
		g.Devices = append(g.Devices, one)
	}
}

// room inspects the output's directory, or its nearest existing parent.
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
