package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"latentbeam/internal/engine/schedule"
	"latentbeam/internal/watch/progress"
	"latentbeam/pipelines/forecast"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// printDevices prints the devices. Equal devices of one host share a line.
func printDevices(out io.Writer, devices []layout.DeviceModel, described bool) {
	source := "measured"
	if described || len(devices) > 0 && !devices[0].Mapped { // the numbers come from a table of device models
		source = "assumed"
	}
	hosts, net := 1, math.Inf(1)
	for i := 0; i < len(devices); {
		d, n := devices[i], 1
		for i+n < len(devices) && devices[i+n] == d {
			n++
		}
		if i > 0 && devices[i-1].Node != d.Node {
			hosts++
		}
		fmt.Fprintf(out, "%d x %s: %s, %sFLOP/s, %s/s between them (%s)\n", n, d.Name,
			cost.Bytes(d.Memory), formatRate(d.Rate), cost.Bytes(int64(d.Link)), source)
		net = min(net, cmp.Or(d.Net, layout.Network))
		i += n
	}
	if hosts > 1 {
		fmt.Fprintf(out, "on %d hosts: %s/s between them\n", hosts, cost.Bytes(int64(net)))
	}
}

// printLayout prints the chosen layout for one shape, and why others were not chosen.
func printLayout(out io.Writer, l forecast.BucketPlan, devices []layout.DeviceModel) {
	fmt.Fprintf(out, "\n%s, %d steps, %s to compute\n", l.Shape, l.Shape.NumInferenceSteps, progress.Rows(l.Keys))
	if l.Fails != nil {
		fmt.Fprintf(out, "  they will fail: %v\n", l.Fails)
		return
	}
	b, set := l.Best, l.Best.Sets[0]
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "  layout\t%s\n", describeLayout(b))
	printLeases(w, l)
	if s := l.Split(); s != nil && s.Grid.Shards() > 1 {
		fmt.Fprintf(w, "  a set\tsequence_parallel %d x tp_size %d x pp_size %d\n", s.Grid.Sequence, s.Grid.Tensor,
			s.Grid.Pipeline)
	}
	if p, f := set.Forward.Plan, set.Forward; p != nil {
		fmt.Fprintf(w, "  partition\t%v, %d frames of %d positions in %s\n", p.Partition, p.Shape.Frames,
			p.Shape.Positions, progress.Rows(p.Shape.Batch))
		fmt.Fprintf(w, "  a step\t%s: work %s, exchange %s\n", formatSeconds(f.Seconds()), formatSeconds(f.Compute),
			formatSeconds(f.Wire))
		fmt.Fprintf(w, "  sent / step\t%s by the busiest device, %s by the whole set\n", cost.Bytes(f.Sent),
			cost.Bytes(f.AllSent))
		fmt.Fprintf(w, "  waste\t%.2f%% of the busiest device's work, padding included\n", 100*max(0, f.Waste))
	}
	fmt.Fprintf(w, "  time\t%s for all rows%s\n", formatSeconds(l.Seconds()), timeAssumption(l))
	w.Flush()
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "  device\tcolumns\tframes\tunits\tpeak stage\tweights\tactivations\texchange\t"+
		"in total\tmemory\t")
	for _, s := range b.Sets {
		printSet(w, s, devices, l.Split())
	}
	w.Flush()
	for i, h := range l.Placements {
		if text := h.String(); text != "" {
			fmt.Fprintf(out, "  weights of %s: %s\n", l.Stages[i].Name, text)
		}
		for _, lost := range h.Rejected {
			fmt.Fprintf(out, "    not chosen: %s: %s\n", lost.What, lost.Why)
		}
	}
	for _, lost := range l.Rejected {
		fmt.Fprintf(out, "  not chosen: %s: %s\n", lost.What, lost.Why)
	}
}

// maxLeases limits how many different leases are listed for a stage. A lease is a batch size and a number of devices.
const maxLeases = 4

// printLeases prints the batches that the run gives to each stage. Stages without work are left out.
func printLeases(w io.Writer, l forecast.BucketPlan) {
	for _, s := range l.Stages {
		n := 0
		for _, lease := range l.Run.Leases {
			if lease.Stage != s.Name || s.Work == 0 && s.Split == nil {
				continue
			}
			switch n++; {
			case n == 1:
				fmt.Fprintf(w, "  %s\t%s\n", s.Name, describeLease(lease))
			case n <= maxLeases:
				fmt.Fprintf(w, "\t%s\n", describeLease(lease))
			case n == maxLeases+1:
				fmt.Fprintln(w, "\tand some others")
			}
		}
	}
}

// printSet prints a line for each device of a set.
func printSet(w io.Writer, s layout.Set, devices []layout.DeviceModel, split *cost.Split) {
	for r, i := range s.Devices {
		columns, frames, units := "-", "-", "-"
		if p := s.Forward.Plan; p != nil {
			n, r := 0, split.Share(r, p)
			for _, piece := range p.Pieces(r) {
				n += piece.Heads.Len() * piece.Queries.Len()
			}
			columns, frames, units = strconv.Itoa(p.ColumnSlots(r)), strconv.Itoa(p.FrameSlots(r)), strconv.Itoa(n)
		}
		m := s.Memory[r]
		fmt.Fprintf(w, "  %d %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", i, devices[i].Name,
			columns, frames, units, m.Stage, cost.Bytes(m.Weights), cost.Bytes(m.Activations), cost.Bytes(m.Exchange),
			cost.Bytes(m.Total()), cost.Bytes(devices[i].Memory))
	}
}

// describeLayout says how many sets of how many devices a layout has.
func describeLayout(c layout.Candidate) string {
	text := layout.Sets(c.Width, c.Elements)
	switch {
	case len(c.Sets) > 1:
		text = strconv.Itoa(len(c.Sets)) + " " + text
	default:
		text = "1 " + strings.Replace(text, "sets", "set", 1)
	}
	if c.Tail > 0 {
		text += fmt.Sprintf("; the last %d on all devices together", c.Tail)
	}
	return text
}

// describeLease says how many batches of how many rows run on how many devices.
func describeLease(l schedule.Lease) string {
	text := fmt.Sprintf("%d batches of %d on ", l.Times, l.Elements)
	if l.Times == 1 {
		text = fmt.Sprintf("1 batch of %d on ", l.Elements)
	}
	if l.Devices == 1 {
		text += "1 device"
	} else {
		text += fmt.Sprintf("%d devices together", l.Devices)
	}
	if l.Batches > 1 {
		text += fmt.Sprintf(", joined from %d waiting batches", l.Batches)
	}
	return text
}

// timeAssumption returns what a predicted time assumes. It returns "" if the time comes from a simulation of the run.
func timeAssumption(l forecast.BucketPlan) string {
	if len(l.Run.Leases) > 0 {
		return ""
	}
	return ", if every set takes the next batch when it is free"
}

// formatSeconds formats seconds with about four digits.
func formatSeconds(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}

// formatRate formats a rate with an SI prefix, such as "37.6 G".
func formatRate(v float64) string {
	for _, p := range []struct {
		factor float64
		prefix string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}} {
		if v >= p.factor {
			return strconv.FormatFloat(v/p.factor, 'f', 1, 64) + " " + p.prefix
		}
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " "
}
