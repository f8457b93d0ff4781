package runpage

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"time"

	"latentbeam/stages/cost"
)

// Run is what the page shows.
type Run struct {
	Title    string
	Facts    [][2]string // of the whole run: name, value
	Stages   []string    // in the order of the job
	Elapsed  time.Duration
	Tally    *Tally
	Stage    []StageTime
	Expected []Expectation
	NoPlan   string // why nothing was predicted, "" where it was
	Memory   []Memory
	Failures []Failures
	Kernels  []Kernel
}

// StageTime is how long a stage was at work in all.
type StageTime struct {
	Name string
	Busy time.Duration
}

// Expectation is a predicted time beside what happened.
type Expectation struct {
	Name                string
	Predicted, Measured time.Duration
}

// Memory is what a batch was expected to need on a device beside what it needed.
type Memory struct {
	Stage, Shape        string
	Estimated, Measured int64 // bytes
	Fails               int   // batches that did not fit
}

// Failures counts the rows that failed in one way.
type Failures struct {
	Class, Stage, Reason string
	Rows                 int
}

// Kernel is a line of the table of kernels.
type Kernel struct {
	Name, Stage string
	Calls       int64
	Busy        time.Duration
	GFLOPS, GBS float64 // 0: not known
}

//go:embed page.html
var pageHTML string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"bytes": cost.Bytes, "short": short, "rate": rate, "percent": percent,
}).Parse(pageHTML))

// view is a Run as the page shows it.
type view struct {
	*Run
	Charts  []chart
	Colours []legend
}

type legend struct {
	Stage string
	Class int
}

// Write writes the page.
func Write(w io.Writer, r *Run) error {
	v := view{Run: r}
	for i, s := range r.Stages {
		v.Colours = append(v.Colours, legend{s, i % colours})
	}
	shapes, devices, waits := r.Tally.Cells()
	v.Charts = append(v.Charts, r.stageChart(), r.cellChart("By shape", "Device time for the rows of each shape.", shapes, true),
		r.cellChart("By device", fmt.Sprintf("Each bar is one device; its whole width is the time of the run, %s. Batches waited "+
			"for devices for %s in all.", short(r.Elapsed), short(waits)), devices, false))
	return page.Execute(w, v)
}

// colours is how many colours of stages the page has.
const colours = 8

// Sizes of a chart, in its own units; the page scales it.
const (
	chartWidth = 720
	labelWidth = 190
	valueWidth = 130
	barHeight  = 22
)

type chart struct {
	Title, Note string
	Width       int
	Height      int
	Bars        []bar
}

type bar struct {
	Label, Value string
	Y            int
	Parts        []part
}

type part struct {
	X, Width float64
	Class    int
	Title    string
}

func (r *Run) stageChart() chart {
	var all, most time.Duration
	for _, s := range r.Stage {
		all += s.Busy
		most = max(most, s.Busy)
	}
	c := chart{Title: "By stage", Note: "Time that each stage was at work."}
	for _, s := range r.Stage {
		c.add(s.Name, fmt.Sprintf("%s, %s", short(s.Busy), percent(float64(s.Busy), float64(all))), float64(most),
			[]Cell{{Stage: s.Name, Busy: s.Busy}}, r.Stages)
	}
	return c
}

// cellChart has a bar for each shape or device. Bars of shapes are compared with the longest one, those of devices with
// the whole run.
func (r *Run) cellChart(title, note string, cells []Cell, relative bool) chart {
	c := chart{Title: title, Note: note}
	var names []string
	sums := map[string]time.Duration{}
	rows := map[string]int{}
	for _, cell := range cells {
		if !slices.Contains(names, cell.Of) {
			names = append(names, cell.Of)
		}
		sums[cell.Of] += cell.Busy
		rows[cell.Of] = max(rows[cell.Of], cell.Rows)
	}
	whole := r.Elapsed
	if relative {
		whole = 0
		for _, s := range sums {
			whole = max(whole, s)
		}
	}
	for _, name := range names {
		var own []Cell
		for _, cell := range cells {
			if cell.Of == name {
				own = append(own, cell)
			}
		}
		value := fmt.Sprintf("%s, %s busy", short(sums[name]), percent(float64(sums[name]), float64(r.Elapsed)))
		if relative {
			value = fmt.Sprintf("%s, %d rows", short(sums[name]), rows[name])
		}
		// A device works on several batches at once where it may: its bar ends with the run all the same.
		c.add(name, value, float64(max(whole, sums[name])), own, r.Stages)
	}
	return c
}

// add adds a bar made of cells; whole is what the full width stands for.
func (c *chart) add(label, value string, whole float64, cells []Cell, stages []string) {
	b := bar{Label: label, Value: value, Y: len(c.Bars) * (barHeight + 8)}
	x, scale := float64(labelWidth), float64(chartWidth-labelWidth-valueWidth)/max(1, whole)
	for _, cell := range cells {
		width := float64(cell.Busy) * scale
		b.Parts = append(b.Parts, part{X: x, Width: max(0.5, width), Class: max(0, slices.Index(stages, cell.Stage)) % colours,
			Title: fmt.Sprintf("%s: %s", cell.Stage, short(cell.Busy))})
		x += width
	}
	c.Bars = append(c.Bars, b)
	c.Width, c.Height = chartWidth, b.Y+barHeight
}

// short is a time as people read it.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d >= time.Millisecond:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return strconv.FormatInt(d.Microseconds(), 10) + " µs"
}

func rate(f float64) string {
	if f <= 0 {
		return "–"
	}
	return strconv.FormatFloat(f, 'f', 1, 64)
}

func percent(a, b float64) string {
	if b <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*a/b)
}

// Ratio is measured by predicted.
func (e Expectation) Ratio() float64 { return e.Measured.Seconds() / e.Predicted.Seconds() }
