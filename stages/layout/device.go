package layout

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"latentbeam/stages/cost"
)

// DeviceModel is what the cost model knows of one device.
type DeviceModel struct {
	Name    string
	Memory  int64   // bytes that a job can use
	Rate    float64 // FLOP/s that a video transformer reaches
	Link    float64 // bytes/s in each direction to another device of its island
	Host    float64 // bytes/s to and from host memory, and through it to devices of other islands
	Latency float64 // seconds of one exchange before the first byte
	Call    float64 // shortest time of a kernel in seconds: its launch
	Island  int     // devices with the same number are connected by links
	Node    int     // number of the host
	Net     float64 // bytes/s to devices of other hosts; 0: Network
	// Mapped says that weights are mapped from their files, one copy for all devices of a process. Sharers is the number of
	// these devices; each counts its part of that copy in Memory. With Sharers 0, Memory is for batches only. No reserve is
	// subtracted from Memory.
	Mapped  bool
	Sharers int
	// Price is what kernels cost, each in FLOP at Rate. Devices of a set have the same list. nil: products cost their FLOP and
	// nothing else costs anything.
	Price *cost.Kernels
	// Processors is the number of the host's processors that compute for the device; 0: the device is a GPU and hostProcessors
	// work beside it.
	Processors int
}

// hostProcessors is the assumed number of processors of a host for each GPU.
const hostProcessors = 4

const (
	maxDevices = 1024
	gb         = 1e9
	tera       = 1e12
	// usable is the part of a device's nominal memory that is free after the driver has started: a T4 of 16 GB has 14.5 GiB.
	usable = 0.97
)

// known lists the devices that a specification can name. rate is what a diffusion transformer reaches in 16 bit, not the peak
// of the data sheet: for H100 computed from the published times of Open-Sora 1.2 (131 TFLOP/s with the text encoder and the
// decoder), for others scaled by their peaks. Links of SXM modules are NVLink; T4, A10, L4 and the GeForce cards exchange
// through the host.
var known = []struct {
	name       string
	memory     float64 // GB, if the specification gives none
	rate       float64 // TFLOP/s
	link, host float64 // GB/s
}{
	{"T4", 16, 20, 5, 12},
	{"V100", 32, 35, 60, 12},
	{"A10", 24, 40, 10, 24},
	{"A10G", 24, 40, 10, 24},
	{"L4", 24, 35, 10, 24},
	{"L40", 48, 70, 18, 24},
	{"L40S", 48, 90, 18, 24},
	{"RTX3090", 24, 40, 10, 24},
	{"RTX4090", 24, 80, 10, 24},
	{"A6000", 48, 50, 18, 24},
	{"A100", 80, 70, 200, 24},
	{"A100PCIe", 80, 70, 18, 24},
	{"H100", 80, 140, 250, 48},
	{"H100PCIe", 80, 100, 40, 48},
	{"H200", 141, 140, 250, 48},
	{"B200", 180, 280, 500, 48},
	{cpuName, 16, 0.1, 5, 5},
}

// cpuName is the name of workers on processors.
const cpuName = "cpu"

// launch is the shortest time of a kernel in seconds on any device: the host needs 3 to 5 us to start one.
const launch = 4e-6

// latency is the time of an exchange before its first byte, in seconds.
const latency = 30e-6

// Network is the assumed bandwidth between hosts in bytes/s: 10 Gbit/s Ethernet, the slowest network that hosts with GPUs have.
// Measured times of batches correct the prediction. netLatency is the time of an exchange before its first byte, in seconds:
// the ranks connect over TCP.
const (
	Network    = 1.2 * gb
	netLatency = 150e-6
)

// Known returns the names that ParseDevices accepts.
func Known() []string {
	var names []string
	for _, k := range known {
		names = append(names, k.name)
	}
	return names
}

// ParseDevices parses a specification such as 4xT4-16GB, 8xH100 or 2xH100-80GB+1xT4-16GB: a count, a known name and, if it
// differs from the usual one, the memory. Each part joined by + is an island; parts joined by / are hosts, so 8xH100/8xH100 is
// two hosts.
func ParseDevices(spec string) ([]DeviceModel, error) {
	var out []DeviceModel
	island := 0
	for node, host := range strings.Split(spec, "/") {
		for _, part := range strings.Split(host, "+") {
			count, d, err := parsePart(strings.TrimSpace(part))
			if err != nil {
				return nil, fmt.Errorf("devices %q: %w; write such as 4xT4-16GB, 2xH100-80GB+1xT4-16GB or, for two hosts, "+
					"8xH100/8xH100", spec, err)
			}
			d.Island, d.Node = island, node
			island++
			if len(out)+count > maxDevices {
				return nil, fmt.Errorf("devices %q: more than %d devices", spec, maxDevices)
			}
			for range count {
				out = append(out, d)
			}
		}
	}
	return out, nil
}

func parsePart(part string) (count int, d DeviceModel, err error) {
	count = 1
	if n, rest, found := strings.Cut(part, "x"); found {
		if v, err := strconv.Atoi(n); err == nil {
			if count, part = v, rest; v < 1 || v > maxDevices {
				return 0, d, fmt.Errorf("%d of a kind: give 1 to %d", v, maxDevices)
			}
		}
	}
	name, size, sized := strings.Cut(part, "-")
	for _, k := range known {
		if !strings.EqualFold(k.name, name) {
			continue
		}
		d = DeviceModel{Rate: k.rate * tera, Link: k.link * gb, Host: k.host * gb, Latency: latency, Call: launch}
		memory := k.memory * gb
		if sized {
			if memory, err = parseMemory(size); err != nil {
				return 0, d, err
			}
		}
		d.Name = fmt.Sprintf("%s-%gGB", k.name, memory/gb)
		d.Memory = int64(memory * usable)
		return count, d, nil
	}
	if name == "" {
		return 0, d, errors.New("a part is empty")
	}
	return 0, d, fmt.Errorf("%q is not a known device (%s)", name, strings.Join(Known(), ", "))
}

// parseMemory parses 16GB or 15GiB.
func parseMemory(text string) (float64, error) {
	for _, u := range []struct {
		suffix string
		bytes  float64
	}{{"GiB", 1 << 30}, {"GB", gb}} {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			v, err := strconv.ParseFloat(number, 64)
			if err == nil && v > 0 && v <= 1e6 {
				return v * u.bytes, nil
			}
		}
	}
	return 0, fmt.Errorf("%q is not a memory size such as 16GB", text)
}

// Ranks returns devices for ranks of which only the relative speeds are known: workers on processors, with the values of the
// table. Every process that knows the speeds gets the same devices.
func Ranks(speeds []float64) []DeviceModel {
	most := 0.0
	for _, s := range speeds {
		most = max(most, s)
	}
	rates := make([]float64, len(speeds))
	for i, s := range speeds {
		rates[i] = s / most
	}
	return Workers(rates)
}

// Workers returns workers on processors with speeds relative to the table's.
func Workers(rates []float64) []DeviceModel {
	_, d, _ := parsePart(cpuName)
	d.Name = cpuName
	out := make([]DeviceModel, len(rates))
	for i, r := range rates {
		out[i] = d
		out[i].Rate *= r
	}
	return out
}

// Priced returns a device whose kernels take the given seconds. Its rate is the FLOP/s that it reaches in the kernels of work.
func Priced(work, seconds cost.Kernels) DeviceModel {
	rate := work.Work() / work.At(seconds)
	price := seconds.Times(rate)
	return DeviceModel{Rate: rate, Price: &price}
}

// deciding returns the devices by which a partition is chosen. Workers on processors get the values of Ranks, not their
// measured ones, because all processes of a set must choose the same partition.
func deciding(devices []DeviceModel) []DeviceModel {
	var speeds []float64
	for _, d := range devices {
		if d.Name != cpuName {
			return devices
		}
		speeds = append(speeds, d.Rate)
	}
	return Ranks(speeds)
}

// rates returns the relative speeds of the devices.
func rates(devices []DeviceModel) []float64 {
	out := make([]float64, len(devices))
	for i, d := range devices {
		out[i] = d.Rate
	}
	return out
}

// wire returns the bandwidth and latency of the slowest pair of devices in a set.
func wire(devices []DeviceModel) (bandwidth, latency float64) {
	island, node := true, true
	for _, d := range devices {
		island = island && d.Island == devices[0].Island && d.Node == devices[0].Node
		node = node && d.Node == devices[0].Node
	}
	for i, d := range devices {
		b := d.Link
		if !island {
			b = min(d.Host, d.Link)
		}
		latency = max(latency, d.Latency)
		if !node {
			b = min(b, cmp.Or(d.Net, Network))
			latency = max(latency, netLatency)
		}
		if i == 0 || b < bandwidth {
			bandwidth = b
		}
	}
	return bandwidth, latency
}

// Relative returns d with its island and host numbered relative to the first device of its set. Sets that are equal after that
// get the same prediction.
func (d DeviceModel) Relative(first DeviceModel) DeviceModel {
	d.Island -= first.Island
	d.Node -= first.Node
	return d
}
