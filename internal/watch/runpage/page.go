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

// Run holds the contents of the page.
type Run struct {
	Title    string
	Facts    [][2]string // names and values of facts about the run
	Gallery  string      // path of the page with the videos, relative to this page; "": none
	Stages   []string    // in the order of the job
	Elapsed  time.Duration
	Tally    *Tally
	Stage    []StageTime
	Expected []Expectation
	NoPlan   string // why there is no forecast; "": there is one
	Memory   []MemoryUse
	Failures []Failures
	Kernels  []Kernel
}

// StageTime is the busy time of a stage and the size of its weights.
type StageTime struct {
	Name    string
	Busy    time.Duration
	Weights int64 // bytes on each device; 0: none, or not known
	Beside  bool  // work of hosts while devices computed
}

// Add adds the time of a stage. A name that is not a stage of the job, such as work of hosts, gets a colour too.
func (r *Run) Add(s StageTime) {
	r.Stage = append(r.Stage, s)
	if !slices.Contains(r.Stages, s.Name) {
		r.Stages = append(r.Stages, s.Name)
	}
}

// Expectation is a predicted time and the measured time.
type Expectation struct {
	Name                string
	Predicted, Measured time.Duration
}

// MemoryUse is the estimated and the measured device memory of batches of one stage and shape.
type MemoryUse struct {
	Stage, Shape        string
	Estimated, Measured int64 // bytes
	Fails               int   // number of batches that did not fit
}

// Failures counts the failed rows with one reason.
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
	"bytes": cost.Bytes, "short": Short, "rate": rate, "percent": percent,
}).Parse(pageHTML))

// pageData holds the values of the page's template.
type pageData struct {
	*Run
	Charts  []chart
	Colours []legend
}

// legend is the colour of a stage.
type legend struct {
	Stage string
	Class int
}

// Write writes the page.
func Write(w io.Writer, r *Run) error {
	v := pageData{Run: r}
	for i, s := range r.Stages {
		v.Colours = append(v.Colours, legend{s, i % colours})
	}
	shapes, devices, waits := r.Tally.Cells()
	v.Charts = append(v.Charts, r.stageChart(), r.cellChart("Time by shape", "Device time for the rows of each shape.", shapes, true),
		r.cellChart("Time by device", fmt.Sprintf("Each bar is one device; its whole width is the time of the run, %s. Batches waited "+
			"for devices for %s in all.", Short(r.Elapsed), Short(waits)), devices, false))
	v.Charts = append(v.Charts, r.memoryCharts(shapes, devices)...)
	return page.Execute(w, v)
}

// Short formats a duration for people.
func Short(d time.Duration) string {
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

// rate formats a rate; "–": not known.
func rate(f float64) string {
	if f <= 0 {
		return "–"
	}
	return strconv.FormatFloat(f, 'f', 1, 64)
}

// percent formats a as a percentage of b; "–": b is 0.
func percent(a, b float64) string {
	if b <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*a/b)
}

// Ratio returns the measured time divided by the predicted time.
func (e Expectation) Ratio() float64 { return e.Measured.Seconds() / e.Predicted.Seconds() }
