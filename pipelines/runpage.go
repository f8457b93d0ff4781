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
	"latentbeam/internal/watch/runfiles"
	"latentbeam/internal/watch/runpage"
	"latentbeam/stages/cost"
)

// kernelLines bounds the kernels of a page; summary.json has all.
const kernelLines = 24

// writePage writes report.html of this run and returns its name in the output, "" where there is none. A page that cannot
// be written ends no job.
func (j *Job) writePage(ctx context.Context, r *Result) string {
	if j.tally == nil {
		return ""
	}
	page := j.page(r)
	job := runfiles.Folder{Store: j.engine.Store, ID: j.RunID()}
	err := job.WritePage(ctx, j.shardName(), func(w io.Writer) error { return runpage.Write(w, page) })
	if err != nil {
		slog.Warn("the report of the run cannot be written", "error", err)
		return ""
	}
	return job.PageName(j.shardName())
}

func (j *Job) page(r *Result) *runpage.Run {
	devices := j.engine.Schedule.Pool.Size()
	page := &runpage.Run{Title: j.report.Title, Elapsed: r.Elapsed, Tally: j.tally, Facts: [][2]string{
		{"Time", r.Elapsed.Round(100 * time.Millisecond).String()}, {"Computed", fmt.Sprint(r.Done)},
		{"Skipped", fmt.Sprint(r.Skipped)}, {"Failed", fmt.Sprint(r.Totals.Failed)}, {"Pending", fmt.Sprint(r.Totals.Pending)},
		{"Model", j.host.Model}, {"Devices", fmt.Sprintf("%d, %s", devices, j.engine.Schedule.Pool.Class())}, {"Run", j.RunID()},
		{"Version", j.Opts.Version}, {"Where the time went", r.Phases.String()},
	}}
	if r.Gallery != "" {
		page.Gallery = "../../" + r.Gallery // this page is in runs/RUN
	}
	if most := peakMemory(); most > 0 {
		page.Facts = append(page.Facts, [2]string{"Most memory of this process", cost.Bytes(most)})
	}
	for _, s := range j.engine.Schedule.Steps {
		page.Stages = append(page.Stages, s.Name)
	}
	weights := j.forecast().Weights(r.Plan.Work)
	for _, s := range r.Stages {
		page.Add(runpage.StageTime{Name: s.Stage, Busy: s.Busy, Weights: weights[s.Stage]})
		for _, k := range s.Beside() {
			page.Add(runpage.StageTime{Name: k.Kernel + " for " + s.Stage, Busy: k.Busy, Beside: true})
		}
	}
	for _, f := range j.engine.Schedule.Learned.Facts() {
		page.Memory = append(page.Memory, runpage.MemoryUse{Stage: f.Stage, Shape: f.Shape, Estimated: f.Estimated,
			Measured: f.Measured, Fails: f.Fails})
	}
	for _, c := range r.Totals.Causes() {
		page.Failures = append(page.Failures, runpage.Failures{Class: c.Class, Stage: c.Stage, Reason: c.Reason, Rows: c.Count})
	}
	page.Kernels = kernelsOf(r.Stages)
	page.Expected, page.NoPlan = j.foreseen.Expectations(r.Totals.Pending, r.Elapsed, j.tally)
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
