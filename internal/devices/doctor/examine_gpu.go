package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"latentbeam/internal/devices/nvml"
	"latentbeam/stages/cost"
)

// cudaChecks checks CUDA as a whole, each device, and the links between devices.
func cudaChecks(f HostFacts) []Check {
	g := f.GPU
	out := []Check{cudaCheck(f)}
	if g.Survey == nil {
		for _, d := range g.Devices {
			out = append(out, bare(d))
		}
		if len(g.Devices) > 0 {
			out = append(out, Check{Name: nvmlName, State: Missing, Found: g.NVMLProblem, Cost: "links, health and " +
				"temperature of the GPUs are unknown: sets are formed without regard to links, and a sick device is " +
				"noticed when its batch fails"})
		}
		return append(out, kinds(g)...)
	}
	for i := range g.Survey.Devices {
		out = append(out, device(g, i))
	}
	out = append(out, kinds(g)...)
	if len(g.Survey.Devices) > 1 {
		out = append(out, links(g.Survey))
	}
	return out
}

// cudaCheck checks CUDA as a whole.
func cudaCheck(f HostFacts) Check {
	g := f.GPU
	c := Check{Name: "CUDA"}
	switch {
	case !f.Program.CUDA && g.OnBus > 0:
		c.State, c.Found = Missing, fmt.Sprintf("not built into this program; the machine has %s", gpus(g.OnBus))
		c.Cost, c.Fix = "they are not used: jobs compute on the CPU", "take the CUDA release, or go build -tags cuda"
	case !f.Program.CUDA:
		c.State, c.Found, c.Cost = Missing, "not built into this program; the machine shows no NVIDIA GPU", "none here"
	case len(g.Devices) > 0:
		c.State, c.Found = OK, fmt.Sprintf("%s, up to CUDA %s", gpus(len(g.Devices)), g.CUDA)
		if g.Survey != nil {
			c.Found += ", driver " + g.Survey.Driver.Version
		}
		if !slices.ContainsFunc(g.Devices, func(d CUDADevice) bool { return d.TooOld() == "" }) {
			c.State, c.Cost = Note, "jobs compute on the CPU: there are no kernels for devices as old as these"
		}
	case g.Module != "":
		c.State, c.Found = Broken, fmt.Sprintf("the driver's kernel module %s is loaded, and CUDA does not start: %s",
			g.Module, g.Problem)
		c.Cost = "the GPUs are not used: jobs compute on the CPU"
		c.Fix = "install the libraries of the same driver version (in a container: the NVIDIA container toolkit)"
		if g.Hidden {
			c.State = Note
			c.Fix = "CUDA_VISIBLE_DEVICES is set: unset it to see all devices"
		}
	case g.OnBus > 0:
		c.State, c.Found = Missing, fmt.Sprintf("%s on the bus and no driver", gpus(g.OnBus))
		c.Cost, c.Fix = "no GPU is used: jobs compute on the CPU", "install NVIDIA's driver"
	default:
		c.State, c.Found = Missing, "no NVIDIA GPU: "+g.Problem
		c.Cost = "jobs compute on the CPU"
	}
	return c
}

func gpus(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return strconv.Itoa(n) + " GPUs"
}

// number returns a device's number in this report: its number in the survey if there is one.
func (g GPU) number(d CUDADevice) int {
	if g.Survey != nil {
		return slices.IndexFunc(g.Survey.Devices, func(s nvml.Device) bool { return s.UUID == d.UUID })
	}
	return d.Index
}

// bfloat is the first compute capability whose tensor cores support bf16.
const bfloat = 8

// kinds warns if the devices are of several kinds, or too old for bf16, which most models use.
func kinds(g GPU) (out []Check) {
	of := map[string][]int{}
	var old []int
	for _, d := range g.Devices {
		if d.Problem != "" || d.TooOld() != "" {
			continue
		}
		of[d.Class()] = append(of[d.Class()], g.number(d))
		if d.Major < bfloat {
			old = append(old, g.number(d))
		}
	}
	if len(of) > 1 {
		var parts []string
		for _, class := range slices.Sorted(maps.Keys(of)) {
			parts = append(parts, fmt.Sprintf("%s: GPU %s", class, numbers(slices.Sorted(slices.Values(of[class])))))
		}
		out = append(out, Check{Name: "classes", State: Note, Found: strings.Join(parts, "; "), Cost: "a job computes in " +
			"one class, for its bytes depend on it: it takes the GPUs of the class that is fastest together and leaves " +
			"out the others, which CUDA_VISIBLE_DEVICES gives to another job"})
	}
	if len(old) > 0 {
		out = append(out, Check{Name: "bf16", State: Note,
			Found: fmt.Sprintf("not known to the tensor cores of GPU %s", numbers(slices.Sorted(slices.Values(old)))),
			Cost:  "dtype bf16 is computed by fp32 kernels there; dtype fp16, where a stage has it, is not"})
	}
	return out
}

// bare checks a device that only CUDA shows, not NVML.
func bare(d CUDADevice) Check {
	c := Check{Name: "GPU " + strconv.Itoa(d.Index), State: OK,
		Found: fmt.Sprintf("%s, %s, %s", d.Name, nvml.Device{UUID: d.UUID}.Short(), cost.Bytes(d.Memory))}
	d.judge(&c)
	return c
}

// judge adds the result of the small computation if it failed or was slow.
func (d CUDADevice) judge(c *Check) {
	switch old := d.TooOld(); {
	case old != "":
		c.State, c.Cost = Note, old+": jobs leave it out, and compute on the CPU where there is no other"
	case d.Full:
		c.State, c.Cost = Note, "no memory is left on it, not even for a small product: others have it"
	case d.Problem != "":
		c.State, c.Cost = Broken, "it does not compute: "+d.Problem
	case d.Slow != "":
		c.State, c.Cost = Note, "it computes more slowly than it could, with the kernels of older ones: "+d.Slow
	}
}

// device checks a device that NVML shows.
func device(g GPU, i int) Check {
	d := g.Survey.Devices[i]
	c := Check{Name: "GPU " + strconv.Itoa(i), State: OK, Found: fmt.Sprintf("%s, %s", d.Name, d.Short())}
	shown := slices.IndexFunc(g.Devices, func(v CUDADevice) bool { return v.UUID == d.UUID })
	switch {
	case d.Divided:
		c.Found += ", " + d.Problem
		return c
	case d.Problem != "":
		c.State, c.Cost, c.Fix = Broken, d.Problem, lostFix
		return c
	case g.Unanswered[i] != "":
		c.State, c.Cost, c.Fix = Broken, g.Unanswered[i], lostFix
		return c
	}
	s := g.Status[i]
	c.Found += ", " + reading(d, s)
	switch {
	case shown >= 0 && (g.Devices[shown].Problem != "" || g.Devices[shown].TooOld() != ""):
		g.Devices[shown].judge(&c)
	case s.ECC.Sick() != "":
		c.State, c.Cost, c.Fix = Broken, s.ECC.Sick()+": jobs leave it out", "have the GPU replaced"
	case shown < 0 && g.Hidden:
		c.State, c.Cost = Note, "CUDA_VISIBLE_DEVICES hides it from this process"
	case shown < 0 && len(g.Devices) > 0:
		c.State, c.Cost = Broken, "the driver knows it and CUDA does not show it: jobs leave it out"
	case s.Free < d.Memory/2:
		c.State, c.Cost = Note, "most of its memory is taken"+pids(s)+": jobs leave it out"
	case s.Throttle.Hurts():
		c.State, c.Cost = Note, "it works slower than it could: "+s.Throttle.Hurting().String()
	case s.ECC.Ails() != "":
		c.State, c.Cost = Note, s.ECC.Ails()
	case shown >= 0:
		g.Devices[shown].judge(&c)
	}
	return c
}

const lostFix = "reset the GPU (nvidia-smi --gpu-reset) or restart the machine; if it comes back, have it replaced"

func pids(s nvml.DeviceStatus) string {
	var all []string
	for _, p := range s.Processes {
		all = append(all, strconv.Itoa(p.PID))
	}
	if len(all) == 0 {
		return ""
	}
	return " (pid " + strings.Join(all, ", ") + ")"
}

// reading describes the state of a device; it omits values that the driver does not report.
func reading(d nvml.Device, s nvml.DeviceStatus) string {
	parts := []string{fmt.Sprintf("%s of %s free", cost.Bytes(s.Free), cost.Bytes(d.Memory))}
	if s.Utilization >= 0 {
		parts = append(parts, fmt.Sprintf("%d %% busy", s.Utilization))
	}
	if s.Temperature >= 0 {
		parts = append(parts, fmt.Sprintf("%d °C", s.Temperature))
	}
	if s.Power >= 0 && s.PowerLimit > 0 {
		parts = append(parts, fmt.Sprintf("%.0f of %.0f W", s.Power, s.PowerLimit))
	}
	if d.PCIe.MaxGeneration > 0 {
		parts = append(parts, fmt.Sprintf("PCIe %d x%d", d.PCIe.MaxGeneration, d.PCIe.MaxWidth))
	}
	return strings.Join(parts, ", ")
}

// links lists the devices that have fast links to each other.
func links(s *nvml.Survey) Check {
	c := Check{Name: "links", State: OK}
	var parts []string
	islands := map[int][]int{}
	count := 0
	for i, n := range s.Islands() {
		if s.Devices[i].Divided || s.Devices[i].Problem != "" {
			continue
		}
		if len(islands[n]) == 0 {
			count++
		}
		islands[n] = append(islands[n], i)
	}
	for n := range len(s.Devices) {
		if set := islands[n]; len(set) > 1 {
			parts = append(parts, fmt.Sprintf("%s by %v", numbers(set), s.Links[set[0]][set[1]]))
		}
	}
	switch {
	case count > 1 && len(parts) == 0:
		c.State, c.Found = Note, "no GPU reaches another's memory"
		c.Cost = "a batch on several GPUs exchanges through the host, which costs more than it gains: one GPU each is " +
			"the rule (data parallel)"
	case count > 1:
		c.State, c.Found = Note, strings.Join(parts, "; ")
		c.Cost = "sets are formed inside these islands while they can; one that spans two exchanges through PCIe"
	default:
		c.Found = strings.Join(parts, "; ")
	}
	return c
}

// numbers writes 0, 1, 2 and 5 as "0-2, 5".
func numbers(set []int) string {
	var parts []string
	for i := 0; i < len(set); {
		k := i
		for k+1 < len(set) && set[k+1] == set[k]+1 {
			k++
		}
		if part := strconv.Itoa(set[i]); k > i {
			parts = append(parts, part+"-"+strconv.Itoa(set[k]))
		} else {
			parts = append(parts, part)
		}
		i = k + 1
	}
	return strings.Join(parts, ", ")
}
