package gpus

import (
	"slices"
	"strings"

	"latentbeam/internal/devices/nvml"
	"latentbeam/stages/layout"
)

// Assumed speed of a device that is missing in the table of package layout: FLOP/s, and bytes/s over PCIe.
const (
	unknownRate = 40e12
	unknownHost = 12e9
)

// latency is the time in seconds before the first byte of an exchange.
const latency = 30e-6

// planned describes a device with this much free memory for the cost model. It looks the device up by the driver's name.
func planned(d nvml.Device, free int64) layout.DeviceModel {
	out := layout.DeviceModel{Rate: unknownRate, Link: unknownHost, Host: unknownHost, Latency: latency}
	if name := model(d.Name); name != "" {
		if known, err := layout.ParseDevices(name); err == nil {
			out = known[0]
		}
	}
	if d.MIG() && out.Memory > d.Memory { // an instance has about the same share of the speed as of the memory
		out.Rate *= float64(d.Memory) / float64(out.Memory)
	}
	out.Name, out.Memory = strings.TrimPrefix(d.Name, "NVIDIA "), free
	if host := d.PCIe.Bandwidth(); host > 0 {
		out.Host = host * pcieShare
	}
	if d.NVLinks == 0 {
		out.Link = min(out.Link, out.Host) // even if the full GPU has faster links
	}
	return out
}

// nvlinkRate is the assumed rate of exchanges over one NVLink in each direction, in bytes/s. An A100 with twelve links
// has 200 GB/s in the table of package layout. The nominal rate is 25 GB/s each, since the second generation.
const nvlinkRate = 200e9 / 12

// bestPair returns the largest number of NVLinks between device i and another device.
func bestPair(s nvml.Survey, i int) (most int) {
	for _, l := range s.Links[i] {
		most = max(most, l.NVLinks)
	}
	return most
}

// overNVLink returns the rate of exchanges over n NVLinks to another device, in bytes/s. It is at most the table's rate
// for the device, if the table lists NVLink for it.
func overNVLink(d layout.DeviceModel, n int) float64 {
	rate := float64(n) * nvlinkRate
	if d.Link > d.Host {
		rate = min(rate, d.Link)
	}
	return rate
}

// pcieShare is the fraction of PCIe's nominal bandwidth that copies reach.
const pcieShare = 0.8

// model returns the name in the table of package layout for a driver's name, such as "NVIDIA A100-SXM4-80GB", "NVIDIA A100
// 80GB PCIe", "Tesla T4" or "NVIDIA GeForce RTX 4090"; "": it is not in the table.
func model(name string) string {
	words := strings.FieldsFunc(strings.ToUpper(name), func(r rune) bool { return r == ' ' || r == '-' })
	for i, w := range words {
		if w == "RTX" && i+1 < len(words) {
			words = append(words, w+words[i+1])
		}
	}
	best := ""
	for _, known := range layout.Known() {
		base, pcie := strings.CutSuffix(strings.ToUpper(known), "PCIE")
		if slices.Contains(words, base) && (!pcie || slices.Contains(words, "PCIE")) && len(known) > len(best) {
			best = known
		}
	}
	return best
}
