package hardware

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"

	"latentbeam/internal/devices"
	"latentbeam/internal/devices/gpus"
	"latentbeam/internal/devices/nvml"
	"latentbeam/internal/system"

	"latentbeam/kernels/cpu"
	"latentbeam/schemas/fault"
)

// Local says which devices of this host a process takes.
type Local struct {
	Device  string // as resources.device: "auto" or "", "cpu", "gpu"
	Workers int    // of the CPU
	GPUs    int    // 0: all that can be had
	Threads int    // of the CPU's workers together; 0: all
	Memory  int64  // for batches, of each; 0: what is free
	Class   string // numeric class; "": the best of the devices
	What    string // this process, to others that find a GPU taken
}

// Open opens the devices: GPUs where there are any and Device does not say otherwise, else workers of the CPU.
// end gives them back.
func (l Local) Open() (opened devices.Pool, end func(), err error) {
	if l.Device != "cpu" && l.Workers > 0 && !l.ofCPU() {
		p, end, err := l.openGPUs()
		if err == nil && l.Class != "" && p.Class() != l.Class {
			end()
			return nil, nil, &classError{l.Class, []string{p.Class()}}
		}
		if err == nil {
			return p, end, nil
		}
		if err := l.without(err); err != nil {
			return nil, nil, err
		}
	}
	if threads := cmp.Or(l.Threads, runtime.GOMAXPROCS(0)); l.Workers > threads {
		slog.Warn("more workers than threads save no time: they take turns on the processor",
			"workers", l.Workers, "threads", threads)
	}
	if has := cpu.Classes(); l.Class != "" && l.Workers > 0 && (l.Device == "gpu" || !slices.Contains(has, l.Class)) {
		return nil, nil, &classError{l.Class, has}
	}
	class := l.Class
	if l.Workers == 0 { // others compute
		class = ""
	}
	p, err := devices.NewCPUOf(class, l.Workers, l.Threads, l.Memory)
	if err == nil {
		system.BoundHeap(p.Memory().Limit * int64(l.Workers)) // weights and batches of a CPU are on the heap
	}
	return p, func() {}, err
}

// ofCPU tells whether only a CPU has the class.
func (l Local) ofCPU() bool { return strings.HasPrefix(l.Class, "cpu/") && l.Device != "gpu" }

// classError says that the devices of this host do not compute in a class.
type classError struct {
	want string
	has  []string
}

// Error names both.
func (e *classError) Error() string {
	return fmt.Sprintf("this host does not compute in class %s; it has %s", e.want, strings.Join(e.has, ", "))
}

// inspect returns the devices that Open would open, as far as they can be seen without taking them; nil where these are
// workers of the CPU.
func (l Local) inspect() (*machine, error) {
	if l.Device == "cpu" || l.Workers == 0 || l.ofCPU() {
		return nil, nil
	}
	host, closeHost := openHost()
	defer closeHost()
	devices, class, err := gpus.Inspect(host, gpus.CUDA(l.Memory), gpus.Options{Workers: l.GPUs})
	if err == nil && l.Class != "" && class != l.Class {
		return nil, &classError{l.Class, []string{class}}
	}
	if err == nil {
		return &machine{devices: devices, class: class, given: l.Memory}, nil
	}
	return nil, l.without(err)
}

// without returns what it means that no GPU can be used: nil where the CPU may compute instead.
func (l Local) without(err error) error {
	switch {
	case l.Device == "gpu":
		return err
	case !errors.Is(err, gpus.ErrNone): // there are some, and others have them: the CPU would be another class
		return fmt.Errorf("%w; resources.device: cpu computes without them", err)
	}
	slog.Debug("no GPU is used", "why", err)
	return nil
}

// openHost opens what tells of the GPUs of this host; nil where nothing does.
func openHost() (nvml.Host, func()) {
	host, err := nvml.Open()
	if err != nil {
		slog.Debug("GPUs are used without NVML: nothing is known of their links and health", "why", err)
		return nil, func() {}
	}
	return host, host.Close
}

// openGPUs opens the GPUs of this host.
func (l Local) openGPUs() (*gpus.Pool, func(), error) {
	host, closeHost := openHost()
	p, err := gpus.Open(host, gpus.CUDA(l.Memory), gpus.Options{Workers: l.GPUs, Memory: l.Memory, What: l.What})
	if err != nil {
		closeHost()
		return nil, nil, err
	}
	return p, func() { p.Close(); closeHost() }, nil
}

// openLocal opens the devices of this process for a job.
func openLocal(w Wanted) (devices.Pool, func(), error) {
	r := w.Config.Resources
	l := Local{Device: r.Device, Workers: r.Workers, Threads: r.Threads, Memory: int64(r.Memory), What: "job " + w.Start.File}
	if w.Config.Given("resources.workers") {
		l.GPUs = r.Workers
	}
	p, end, err := l.openClass(w)
	if err != nil && fault.ClassOf(err) != fault.ClassFatal {
		key := "resources.workers"
		if r.Device == "gpu" {
			key = "resources.device"
		}
		return nil, nil, w.Config.Errorf(key, "%v", err)
	}
	return p, end, err
}

// promised is a pool of a process that computes nothing: its workers will be of the class.
type promised struct {
	devices.Pool
	class string
}

// Class returns the class that was promised.
func (p promised) Class() string { return p.class }

// openClass opens the devices of the class that the job asks for. One that it does not ask for is that of the output's rows
// where this host can compute it.
func (l Local) openClass(w Wanted) (devices.Pool, func(), error) {
	asked := w.Config.Resources.Class
	if asked == "auto" {
		asked = ""
	}
	l.Class = cmp.Or(w.Class, asked, w.Before)
	p, end, err := l.openOrLook(w)
	var other *classError
	switch {
	case !errors.As(err, &other):
		return p, end, err
	case asked != "" && w.Away: // its workers tell whether they are of the class
		l.Class = ""
		p, end, err = l.openOrLook(w)
		if err == nil {
			p = promised{p, asked}
		}
		return p, end, err
	case w.Class != "":
		return nil, nil, fault.Usage(fmt.Errorf("this worker cannot compute the job: %w; give the job hosts that do, or set "+
			"resources.class to a class that all of them have", err))
	case asked != "":
		return nil, nil, w.Config.Errorf("resources.class", "%v", err).WithFix("run on a host that does, or leave resources.class out")
	}
	l.Class = ""
	return l.openOrLook(w)
}

// openOrLook opens the devices, or only looks at them where that is wanted or others compute with theirs.
func (l Local) openOrLook(w Wanted) (devices.Pool, func(), error) {
	if w.Planned != nil {
		like, err := devices.NewCPU(1, 1, 0)
		if err != nil {
			return nil, nil, err
		}
		return &machine{devices: w.Planned, class: like.Class(), given: l.Memory}, func() {}, nil
	}
	if w.Look || w.Away {
		if m, err := l.inspect(); m != nil || err != nil {
			return m, func() {}, err
		}
		l.Device = "cpu"
	}
	return l.Open()
}
