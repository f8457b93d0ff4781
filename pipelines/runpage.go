package pipelines

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"latentbeam/internal/engine"
	"latentbeam/internal/watch/runpage"
	"latentbeam/stages/cost"
)

// kernelLines bounds the kernels of a page; summary.json has all.
const kernelLines = 24

// writePage writes report.html of this run and returns its name in the output, "" where there is none. A page that cannot
// be written ends no job.
func (f *finished) writePage(ctx context.Context) string {
	if f.run.record.tally == nil {
		return ""
	}
	page := f.page()
	job, name := f.run.record.folder(), shardName(f.run.report.Part)
	err := job.WritePage(ctx, name, func(w io.Writer) error { return runpage.Write(w, page) })
	if err == nil && f.run.report.Part == "" {
		last := *page
		last.Gallery = strings.TrimPrefix(page.Gallery, "../") // it is in runs/
		err = job.WriteLastPage(ctx, func(w io.Writer) error { return runpage.Write(w, &last) })
	}
	if err != nil {
		slog.Warn("the report of the run cannot be written", "error", err)
		return ""
	}
	return job.PageName(name)
}

func (f *finished) page() *runpage.Run {
	r := &f.run.result
	devices := f.run.engine.Schedule.Pool.Size()
	page := &runpage.Run{Title: f.run.report.Title, Elapsed: r.Elapsed, Tally: f.run.record.tally, Facts: [][2]string{
		{"Time", r.Elapsed.Round(100 * time.Millisecond).String()}, {"Computed", fmt.Sprint(r.Done)},
		{"Skipped", fmt.Sprint(r.Skipped)}, {"Failed", fmt.Sprint(r.Totals.Failed)}, {"Pending", fmt.Sprint(r.Totals.Pending)},
		{"Model", f.model}, {"Devices", fmt.Sprintf("%d, %s", devices, f.run.engine.Schedule.Pool.Class())}, {"Run", f.run.record.ID},
		{"Version", f.version}, {"Where the time went", r.Phases.String()},
	}}
	if r.Gallery != "" {
		page.Gallery = "../../" + r.Gallery // this page is in runs/RUN
	}
	if most := peakMemory(); most > 0 {
		page.Facts = append(page.Facts, [2]string{"Most memory of this process", cost.Bytes(most)})
	}
	for _, s := range f.run.engine.Schedule.Steps {
		page.Stages = append(page.Stages, s.Name)
	}
	for _, s := range r.Stages {
		page.Add(runpage.StageTime{Name: s.Stage, Busy: s.Busy, Weights: f.weights[s.Stage]})
		for _, k := range s.Beside() {
			page.Add(runpage.StageTime{Name: k.Kernel + " for " + s.Stage, Busy: k.Busy, Beside: true})
		}
	}
	for _, m := range f.run.engine.Schedule.Learned.Facts() {
		page.Memory = append(page.Memory, runpage.MemoryUse{Stage: m.Stage, Shape: m.Shape, Estimated: m.Estimated,
			Measured: m.Measured, Fails: m.Fails})
	}
	for _, c := range r.Totals.Causes() {
		page.Failures = append(page.Failures, runpage.Failures{Class: c.Class, Stage: c.Stage, Reason: c.Reason, Rows: c.Count})
	}
	page.Kernels = kernelsOf(r.Stages)
	page.Expected, page.NoPlan = f.run.foreseen.Expectations(r.Totals.Pending, r.Elapsed, f.run.record.tally)
	return page
}

// peakMemory is the most memory that this process had so far, in bytes, mapped weights included; 0 where the system does
// not say.
func peakMemory() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	kib, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// kernelsOf are the kernels that took most of the time.
func kernelsOf(stages []engine.StageTime) []runpage.Kernel {
	var out []runpage.Kernel
	for _, s := range stages {
		for _, k := range s.Kernels {
			out = append(out, runpage.Kernel{Name: k.Kernel, Stage: s.Stage, Calls: k.Calls, Busy: k.Busy, GFLOPS: k.Rate, GBS: k.Moved})
		}
	}
	slices.SortStableFunc(out, func(a, b runpage.Kernel) int { return cmp.Compare(b.Busy, a.Busy) })
	return out[:min(len(out), kernelLines)]
}
