package record

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
	"latentbeam/internal/results/report"
	"latentbeam/internal/watch/runpage"
	"latentbeam/pipelines/forecast"
	"latentbeam/stages/cost"
)

// Page holds the contents of report.html that the record of a run does not have.
type Page struct {
	Title   string
	Part    string // part of a shard; "": all rows
	Gallery string // name of the page with the videos; "": none
	Model   string
	Version string // version of the program

	Elapsed  time.Duration
	Phases   Phases
	Done     int64 // number of rows
	Skipped  int64
	Totals   *report.Totals
	Stages   []engine.StageTime
	Weights  map[string]int64  // bytes by stage
	Foreseen forecast.Foreseen // forecast made before the run
}

// WritePage writes report.html of this run and returns its name in the output; "": no page. If it cannot write the page, it logs
// a warning and the job goes on.
func (r *Record) WritePage(ctx context.Context, p Page) string {
	if r.tally == nil {
		return ""
	}
	page, job, name := r.page(p), r.Folder(), shardName(p.Part)
	err := job.WritePage(ctx, name, func(w io.Writer) error { return runpage.Write(w, page) })
	if err == nil && p.Part == "" {
		last := *page
		last.Gallery = strings.TrimPrefix(page.Gallery, "../") // the last page is in runs/, one level higher
		err = job.WriteLastPage(ctx, func(w io.Writer) error { return runpage.Write(w, &last) })
	}
	if err != nil {
		slog.Warn("the report of the run cannot be written", "error", err)
		return ""
	}
	return job.PageName(name)
}

// page returns the contents of report.html.
func (r *Record) page(p Page) *runpage.Run {
	schedule := r.engine.Schedule
	page := &runpage.Run{Title: p.Title, Elapsed: p.Elapsed, Tally: r.tally, Facts: [][2]string{
		{"Time", p.Elapsed.Round(100 * time.Millisecond).String()}, {"Computed", fmt.Sprint(p.Done)},
		{"Skipped", fmt.Sprint(p.Skipped)}, {"Failed", fmt.Sprint(p.Totals.Failed)}, {"Pending", fmt.Sprint(p.Totals.Pending)},
		{"Model", p.Model}, {"Devices", fmt.Sprintf("%d, %s", schedule.Pool.Size(), schedule.Pool.Class())}, {"Run", r.ID},
		{"Version", p.Version}, {"Where the time went", p.Phases.String()},
	}}
	if p.Gallery != "" {
		page.Gallery = "../../" + p.Gallery // this page is in runs/RUN
	}
	if most := peakMemory(); most > 0 {
		page.Facts = append(page.Facts, [2]string{"Most memory of this process", cost.Bytes(most)})
	}
	for _, s := range schedule.Steps {
		page.Stages = append(page.Stages, s.Name)
	}
	for _, s := range p.Stages {
		page.Add(runpage.StageTime{Name: s.Stage, Busy: s.Busy, Weights: p.Weights[s.Stage]})
		for _, k := range s.Beside() {
			page.Add(runpage.StageTime{Name: k.Kernel + " for " + s.Stage, Busy: k.Busy, Beside: true})
		}
	}
	for _, m := range schedule.Learned.Facts() {
		page.Memory = append(page.Memory, runpage.MemoryUse{Stage: m.Stage, Shape: m.Shape, Estimated: m.Estimated,
			Measured: m.Measured, Fails: m.Fails})
	}
	for _, c := range p.Totals.Causes() {
		page.Failures = append(page.Failures, runpage.Failures{Class: c.Class, Stage: c.Stage, Reason: c.Reason, Rows: c.Count})
	}
	page.Kernels = kernelsOf(p.Stages)
	page.Expected, page.NoPlan = p.Foreseen.Expectations(p.Totals.Pending, p.Elapsed, r.tally)
	return page
}

// peakMemory returns the peak resident memory of this process in bytes, mapped weights included; 0: not known.
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

// kernelLines limits the kernels on a page; summary.json lists all.
const kernelLines = 24

// kernelsOf returns the kernels that used the most time, in descending order.
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
