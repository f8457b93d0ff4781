package gpus

import (
	"slices"
	"strings"

	"latentbeam/internal/devices/nvml"
	"latentbeam/stages/layout"
)

// What a device that is not in the table of layout is taken to reach: FLOP/s, and bytes/s over PCIe.
const (
	unknownRate = 40e12
	unknownHost = 12e9
)

// latency is what an exchange costs before its first byte, in seconds.
const latency = 30e-6

// planned returns what the cost model knows of a device with this much free memory, by the name that the driver
// gives it.
func planned(d nvml.Device, free int64) layout.DeviceModel {
	out := layout.DeviceModel{Rate: unknownRate, Link: unknownHost, Host: unknownHost, Latency: latency}
	if name := model(d.Name); name != "" {
		if known, err := layout.ParseDevices(name); err == nil {
			out = known[0]
		}
	}
	if d.MIG() && out.Memory > d.Memory { // an instance has about as much of the work as of the memory
		out.Rate *= float64(d.Memory) / float64(out.Memory)
	}
	out.Name, out.Memory = strings.TrimPrefix(d.Name, "NVIDIA "), free
	if host := d.PCIe.Bandwidth(); host > 0 {
		out.Host = host * reached
	}
	if d.NVLinks == 0 {
		out.Link = min(out.Link, out.Host) // whatever its make can have
	}
	return out
}

// nvlinkRate is what exchanges are taken to reach over one NVLink in each direction, in bytes/s: the twelve of an A100
// have 200 GB/s in the table of layout. Nominal are 25 GB/s each, since the second generation.
const nvlinkRate = 200e9 / 12

// bestPair returns the most NVLinks that device i and another can use at once.
func bestPair(s nvml.Survey, i int) (most int) {
	for _, l := range s.Links[i] {
		most = max(most, l.NVLinks)
	}
	return most
}

// overNVLink is what a device with n NVLinks to another exchanges at: what the table says of its make, if that has
// NVLink and all of it leads to one place, or less.
func overNVLink(d layout.DeviceModel, n int) float64 {
	rate := float64(n) * nvlinkRate
	if d.Link > d.Host {
		rate = min(rate, d.Link)
	}
	return rate
}

// reached is the part of PCIe's nominal bandwidth that copies reach.
const reached = 0.8

// model returns the name in the table of layout of what the driver calls "NVIDIA A100-SXM4-80GB", "NVIDIA A100
// 80GB PCIe", "Tesla T4" or "NVIDIA GeForce RTX 4090"; "" where there is none.
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
