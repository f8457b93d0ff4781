package gpus

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"latentbeam/internal/devices/nvml"
	"latentbeam/schemas/fault"
	"latentbeam/stages/cost"
)

// Left is a device that the job does not use, with the reason.
type Left struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
	Why  string `json:"why"`
}

// candidate is a device that could be used.
type candidate struct {
	index int // in the survey
	class string
	free  int64
	rate  float64
}

// survey returns the driver's description of the machine. Without NVML it contains only what the maker knows.
func survey(host nvml.Host, visible []Visible) (nvml.Survey, error) {
	if host != nil {
		return host.Survey()
	}
	var s nvml.Survey
	for _, v := range visible {
		s.Devices = append(s.Devices, nvml.Device{UUID: v.UUID, Name: v.Name, Memory: v.Memory, NUMA: nvml.Unknown})
	}
	for range visible {
		s.Links = append(s.Links, make([]nvml.Link, len(visible)))
	}
	return s, nil
}

// candidates returns the devices that are visible, healthy and have enough free memory. left holds the others, with reasons.
func candidates(host nvml.Host, s nvml.Survey, visible []Visible) (out []candidate, left []Left) {
	for i, d := range s.Devices {
		at := slices.IndexFunc(visible, func(v Visible) bool { return v.UUID == d.UUID })
		free, why := d.Memory, d.Problem
		switch {
		case why != "":
		case at < 0:
			why = "CUDA does not show it to this process (CUDA_VISIBLE_DEVICES)"
		case visible[at].TooOld != "":
			why = visible[at].TooOld
		case host != nil:
			var status nvml.DeviceStatus
			var err error
			if status, err = host.Status(d.UUID); err != nil {
				why = err.Error()
			} else {
				free, why = status.Free, unfit(d, status)
			}
		}
		if why != "" {
			left = append(left, Left{d.UUID, d.Name, why})
			continue
		}
		out = append(out, candidate{i, visible[at].Class, free, planned(d, free).Rate})
	}
	return out, left
}

// unfit returns the reason why a device that answers cannot be used; "": it can.
func unfit(d nvml.Device, s nvml.DeviceStatus) string {
	if why := s.ECC.Sick(); why != "" {
		return why
	}
	if s.Free >= d.Memory/2 {
		return ""
	}
	var pids []string
	for _, p := range s.Processes {
		pids = append(pids, fmt.Sprint(p.PID))
	}
	why := fmt.Sprintf("%s of its %s are taken", cost.Bytes(s.Used), cost.Bytes(d.Memory))
	if len(pids) > 0 {
		why += " (pid " + strings.Join(pids, ", ") + ")"
	}
	return why
}

// oneClass returns the candidates of one numeric class: the class with the largest total rate. A job computes in one class,
// because otherwise a row's result would depend on its device.
func oneClass(s nvml.Survey, all []candidate) (kept []candidate, left []Left) {
	rates := map[string]float64{}
	best := ""
	for _, c := range all {
		rates[c.class] += c.rate
		if r, b := rates[c.class], rates[best]; best == "" || r > b || r == b && c.class < best {
			best = c.class
		}
	}
	for _, c := range all {
		if c.class == best {
			kept = append(kept, c)
			continue
		}
		d := s.Devices[c.index]
		left = append(left, Left{d.UUID, d.Name, fmt.Sprintf("it computes in class %s, the job in %s", c.class, best)})
	}
	return kept, left
}

// claimed is a candidate that this process has claimed.
type claimed struct {
	candidate
	release func()
}

// claim claims n of the candidates, best-linked first; 0: as many as possible. rest holds the candidates that it did not
// try.
func claim(s nvml.Survey, all []candidate, n int, dir, what string) (taken []claimed, rest []candidate, left []Left,
	err error) {
	open := map[int]candidate{}
	for _, c := range all {
		open[c.index] = c
	}
	want := n
	if n == 0 {
		want = len(all)
	}
	for len(open) > 0 && len(taken) < want {
		for _, i := range s.Choose(slices.Collect(maps.Keys(open)), want-len(taken)) {
			d := s.Devices[i]
			release, err := nvml.Claim(dir, d.UUID, what)
			var busy *nvml.BusyError
			switch {
			case err == nil:
				taken = append(taken, claimed{open[i], release})
			case errors.As(err, &busy):
				left = append(left, Left{d.UUID, d.Name, err.Error()})
			default:
				abandon(taken)
				return nil, nil, left, err
			}
			delete(open, i)
		}
	}
	slices.SortFunc(left, func(a, b Left) int { return strings.Compare(a.UUID, b.UUID) })
	slices.SortFunc(taken, func(a, b claimed) int { return a.index - b.index })
	rest = slices.SortedFunc(maps.Values(open), func(a, b candidate) int { return a.index - b.index })
	return taken, rest, left, nil
}

// fewer returns the error for a job that asks for more GPUs than are available.
func fewer(asked, had int, left []Left) error {
	return fault.TryAgain(fmt.Errorf("%d GPUs are asked for and %d can be had%s\n  fix: ask for fewer (resources.workers, "+
		"--workers of a worker), for no number to take what there is, or again when more can be had",
		asked, had, describe(left)))
}

func abandon(taken []claimed) {
	for _, c := range taken {
		c.release()
	}
}

// describe lists the unused devices and the reasons, for an error.
func describe(left []Left) string {
	var b strings.Builder
	for _, l := range left {
		fmt.Fprintf(&b, "\n  %s (%s): %s", nvml.Device{UUID: l.UUID}.Short(), l.Name, l.Why)
	}
	return b.String()
}
