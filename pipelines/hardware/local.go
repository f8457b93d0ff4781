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

// Local describes which devices of this host a process uses.
type Local struct {
	Device  string // values of resources.device: "auto" or "", "cpu", "gpu"
	Workers int    // number of CPU workers
	GPUs    int    // number of GPUs; 0: all that are free
	Threads int    // threads of all CPU workers together; 0: all
	Memory  int64  // bytes for batches on each device; 0: the free memory
	Class   string // numeric class; "": the best class of the devices
	Owner   string // names this process to others that find a GPU in use
}

// Open opens the devices: GPUs if there are any and Device allows them, otherwise CPU workers. release releases
// them.
func (l Local) Open() (opened devices.Pool, release func(), err error) {
	if l.Device != "cpu" && l.Workers > 0 && !l.cpuOnly() {
		p, release, err := l.openGPUs()
		if err == nil && l.Class != "" && p.Class() != l.Class {
			release()
			return nil, nil, &classError{l.Class, []string{p.Class()}}
		}
		if err == nil {
			return p, release, nil
		}
		if err := l.fallBack(err); err != nil {
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
	if l.Workers == 0 { // this process computes nothing
		class = ""
	}
	p, err := devices.NewCPUOf(class, l.Workers, l.Threads, l.Memory)
	if err == nil {
		system.BoundHeap(p.Memory().Limit * int64(l.Workers)) // CPU workers have weights and batches on the Go heap
	}
	return p, func() {}, err
}

// cpuOnly reports whether only a CPU can compute in the class.
func (l Local) cpuOnly() bool { return strings.HasPrefix(l.Class, "cpu/") && l.Device != "gpu" }

// classError says that the devices of this host cannot compute in the class want.
type classError struct {
	want string
	has  []string
}

// Error names the wanted class and the classes of this host.
func (e *classError) Error() string {
	return fmt.Sprintf("this host does not compute in class %s; it has %s", e.want, strings.Join(e.has, ", "))
}

// inspect returns the GPUs that Open would open, without acquiring them; nil: Open would open CPU workers. It knows only
// what NVML and CUDA report about free GPUs.
func (l Local) inspect() (*plannedPool, error) {
	if l.Device == "cpu" || l.Workers == 0 || l.cpuOnly() {
		return nil, nil
	}
	host, closeHost := openNVML()
	defer closeHost()
	devices, class, err := gpus.Inspect(host, gpus.CUDA(l.Memory), gpus.Options{Workers: l.GPUs})
	if err == nil && l.Class != "" && class != l.Class {
		return nil, &classError{l.Class, []string{class}}
	}
	if err == nil {
		return &plannedPool{devices: devices, class: class, given: l.Memory}, nil
	}
	return nil, l.fallBack(err)
}

// fallBack decides what to do if no GPU can be used, because of err. It returns nil if the CPU may compute instead.
func (l Local) fallBack(err error) error {
	switch {
	case l.Device == "gpu":
		return err
	case !errors.Is(err, gpus.ErrNone): // other processes use the GPUs; the CPU would compute in another class
		return fmt.Errorf("%w; resources.device: cpu computes without them", err)
	}
	slog.Debug("no GPU is used", "why", err)
	return nil
}

// openNVML opens NVML, which reports on the GPUs of this host; nil: it is not available.
func openNVML() (nvml.Host, func()) {
	host, err := nvml.Open()
	if err != nil {
		slog.Debug("GPUs are used without NVML: nothing is known of their links and health", "why", err)
		return nil, func() {}
	}
	return host, host.Close
}

// openGPUs opens the GPUs of this host.
func (l Local) openGPUs() (*gpus.Pool, func(), error) {
	host, closeHost := openNVML()
	p, err := gpus.Open(host, gpus.CUDA(l.Memory), gpus.Options{Workers: l.GPUs, Memory: l.Memory, What: l.Owner})
	if err != nil {
		closeHost()
		return nil, nil, err
	}
	return p, func() { p.Close(); closeHost() }, nil
}

// openLocal opens the devices of this process for a job.
func openLocal(w Request) (devices.Pool, func(), error) {
	r := w.Config.Resources
	l := Local{Device: r.Device, Workers: r.Workers, Threads: r.Threads, Memory: int64(r.Memory), Owner: "job " + w.Start.File}
	if w.Config.Given("resources.workers") {
		l.GPUs = r.Workers
	}
	p, release, err := l.openClass(w)
	if err != nil && fault.ClassOf(err) != fault.ClassFatal {
		key := "resources.workers"
		if r.Device == "gpu" {
			key = "resources.device"
		}
		return nil, nil, w.Config.Errorf(key, "%v", err)
	}
	return p, release, err
}

// classPool is the pool of a submitter that computes nothing. It reports the class that its workers will have.
type classPool struct {
	devices.Pool
	class string
}

// Class returns the class of the workers.
func (p classPool) Class() string { return p.class }

// openClass opens devices of the numeric class that the job asks for. If it asks for none, openClass uses the class of the
// output's rows if this host can compute it.
func (l Local) openClass(w Request) (devices.Pool, func(), error) {
	asked := w.Config.Resources.Class
	if asked == "auto" {
		asked = ""
	}
	l.Class = cmp.Or(w.Class, asked, w.Before)
	p, release, err := l.openOrInspect(w)
	var other *classError
	switch {
	case !errors.As(err, &other):
		return p, release, err
	case asked != "" && w.Away: // the workers check the class themselves
		l.Class = ""
		p, release, err = l.openOrInspect(w)
		if err == nil {
			p = classPool{p, asked}
		}
		return p, release, err
	case w.Class != "":
		return nil, nil, fault.Usage(fmt.Errorf("this worker cannot compute the job: %w; give the job hosts that do, or set "+
			"resources.class to a class that all of them have", err))
	case asked != "":
		return nil, nil, w.Config.Errorf("resources.class", "%v", err).WithFix("run on a host that does, or leave resources.class out")
	}
	l.Class = ""
	return l.openOrInspect(w)
}

// openOrInspect opens the devices. It only inspects them if w says so or if other processes compute.
func (l Local) openOrInspect(w Request) (devices.Pool, func(), error) {
	if w.Planned != nil {
		like, err := devices.NewCPU(1, 1, 0)
		if err != nil {
			return nil, nil, err
		}
		return &plannedPool{devices: w.Planned, class: like.Class(), given: l.Memory}, func() {}, nil
	}
	if w.Inspect || w.Away {
		if m, err := l.inspect(); m != nil || err != nil {
			return m, func() {}, err
		}
		l.Device = "cpu"
	}
	return l.Open()
}
