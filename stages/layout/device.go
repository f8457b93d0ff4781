package layout

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// DeviceModel is what the cost model knows of one device.
type DeviceModel struct {
	Name    string
	Memory  int64   // bytes that a job can use
	Rate    float64 // FLOP/s that a video transformer reaches
	Link    float64 // bytes/s, each direction, to another device of its island
	Host    float64 // bytes/s to and from host memory, and over it to devices of other islands
	Latency float64 // seconds of one exchange
	Call    float64 // seconds that a kernel takes at least: its launch
	Island  int     // devices with the same number reach each other by their links
	Node    int     // the host that has it
	Net     float64 // bytes/s to devices of other hosts; 0: Network
	// Mapped says that weights are mapped from their files, one copy for all devices of a process; Sharers is how
	// many these are, each with its part of that copy in Memory; 0: Memory is for batches alone. Nothing of it is
	// left free.
	Mapped  bool
	Sharers int
	// Processors are those of the host that the device works with; 0: it is no processor itself, and hostProcessors are beside it.
	Processors int
}

// hostProcessors is how many processors a host is taken to have for each of its devices.
const hostProcessors = 4

const (
	maxDevices = 1024
	gb         = 1e9
	tera       = 1e12
	// usable is the part of a device's nominal memory that is left behind the driver: a T4 of 16 GB offers
	// 14.5 GiB.
	usable = 0.97
)

// known are the devices that a specification can name. Rates are what a diffusion transformer reaches in 16
// bit, not the maker's peak: H100 from the published times of Open-Sora 1.2 (131 TFLOP/s with the text
// encoder and the decoder), the others estimated from it by their peaks. Links of SXM modules are NVLink;
// T4, A10, L4 and the GeForce cards talk through the host.
var known = []struct {
	name       string
	memory     float64 // GB where the specification gives none
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

// cpuName is the name of a processor's workers.
const cpuName = "cpu"

// launch is what a kernel takes at least, in seconds, whoever computes: to start one takes the host 3 to 5 us.
const launch = 4e-6

// latency is what an exchange costs before its first byte, in seconds.
const latency = 30e-6

// Network is what devices of several hosts are taken to exchange at, in bytes/s: 10 Gbit/s Ethernet, the least that
// hosts with GPUs have. How long batches take corrects what comes of it. netLatency is what an exchange costs then
// before its first byte, in seconds: the ranks meet over TCP.
const (
	Network    = 1.2 * gb
	netLatency = 150e-6
)

// Known returns the names that ParseDevices takes.
func Known() []string {
	var names []string
	for _, k := range known {
		names = append(names, k.name)
	}
	return names
}

// ParseDevices reads a specification such as 4xT4-16GB, 8xH100 or 2xH100-80GB+1xT4-16GB: a count, a known
// name and, where it differs from the usual one, the memory. Each part is an island; 8xH100/8xH100 is two hosts.
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

// parseMemory reads 16GB or 15GiB.
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

// Ranks returns devices of which only the relative speeds are known, as the ranks of a set: processors'
// workers with the numbers of the table. Every process that knows the speeds gets the same.
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

// Workers returns processors' workers that are so many times as fast as that of the table.
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

// deciding returns the devices by which a partition is chosen. Workers of a processor are taken as Ranks
// takes them, not as they were measured: all processes of a set must choose alike.
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

// rates returns the devices' relative speeds.
func rates(devices []DeviceModel) []float64 {
	out := make([]float64, len(devices))
	for i, d := range devices {
		out[i] = d.Rate
	}
	return out
}

// wire returns the bandwidth and latency between devices of a set: the slowest pair's.
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

// Relative returns d with its island and its host counted from those of the first of its set: sets whose devices are
// the same by that are predicted alike.
func (d DeviceModel) Relative(first DeviceModel) DeviceModel {
	d.Island -= first.Island
	d.Node -= first.Node
	return d
}
