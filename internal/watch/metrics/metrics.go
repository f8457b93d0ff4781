// Package metrics exports the facts of a run to Prometheus: over HTTP, or as a file for the node exporter's textfile
// collector.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"latentbeam/internal/watch/board"
	"latentbeam/internal/watch/runfiles"
)

// Run is the run that the metrics describe.
type Run struct {
	Version string
	Facts   func() runfiles.Facts
	Counts  func() board.Counts
}

// Description describes a metric.
type Description struct {
	Name   string
	Kind   string // gauge, counter or histogram
	Labels []string
	Help   string
}

// metric is a gauge or a counter.
type metric struct {
	Description
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// gauge returns a gauge.
func gauge(name, help string, labels ...string) metric {
	return newMetric("gauge", prometheus.GaugeValue, name, help, labels)
}

// counter returns a counter.
func counter(name, help string, labels ...string) metric {
	return newMetric("counter", prometheus.CounterValue, name, help, labels)
}

// newMetric returns a metric with the program's prefix.
func newMetric(kind string, value prometheus.ValueType, name, help string, labels []string) metric {
	d := Description{"latentbeam_" + name, kind, labels, help}
	return metric{d, prometheus.NewDesc(d.Name, help, labels, nil), value}
}

// batch describes the histogram of the durations of batches.
var batch = Description{"latentbeam_batch_duration_seconds", "histogram", []string{"stage", "kind"},
	"How long batches were on devices, or waited for them."}

// Descriptions returns the descriptions of all metrics.
func Descriptions() []Description {
	list := []Description{batch}
	for _, m := range all {
		list = append(list, m.Description)
	}
	return list
}

// The metrics of a process.
var (
	info    = gauge("run_info", "The run of this process; always 1.", "process", "version")
	state   = gauge("run_state", "1 for what the process does now, or how it ended, 0 for all else; done: no row is left.", "state")
	started = gauge("run_start_time_seconds", "When the run began, in Unix time.")
	planned = gauge("rows_planned", "Rows that the run has to compute, equal ones counted once.", "shape")
	settled = counter("rows_settled_total", "Rows that were computed and published, or failed.", "result")
	passed  = counter("rows_passed_over_total",
		"Rows that needed no work: settled by an earlier run, equal to another row, or unusable.", "reason")
	failed    = counter("failures_total", "Rows that failed, unusable ones included.", "class", "stage")
	eta       = gauge("remaining_seconds", "Predicted time until all rows are settled; NaN where nothing is known.")
	batches   = gauge("batches", "Batches that a stage has in hand.", "stage", "state")
	stageRows = counter("stage_rows_total", "Rows that have passed a stage.", "stage")
	stageTime = counter("stage_device_seconds_total", "Time of devices that a stage has used.", "stage")
	stageHost = counter("stage_host_seconds_total",
		"Time that hosts spent for a stage beside its devices, of all threads together.", "stage", "work")
	deviceBusy = gauge("device_busy", "1 while a device works for a stage.", "device")
	deviceTime = counter("device_busy_seconds_total", "Time that a device has worked.", "device")
)

var all = []metric{info, state, started, planned, settled, passed, failed, eta, batches, stageRows, stageTime, stageHost,
	deviceBusy, deviceTime}

var states = []runfiles.State{runfiles.Preparing, runfiles.Running, runfiles.Stopping, runfiles.Cancelling, runfiles.Writing, runfiles.Done, runfiles.Stopped,
	runfiles.Failed, runfiles.Cancelled}

// collector makes metrics from the facts at every scrape.
type collector struct{ run Run }

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range all {
		to <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	f, n := c.run.Facts(), c.run.Counts()
	put := func(m metric, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
	}
	put(info, 1, f.Process, c.run.Version)
	for _, s := range states {
		put(state, boolValue(f.State == s), string(s))
	}
	put(started, float64(f.Started.UnixMilli())/1000)
	for _, r := range f.Rates {
		put(planned, float64(r.Total), r.Shape)
	}
	put(settled, float64(f.Rows.Done), "done")
	put(settled, float64(f.Rows.Failed), "failed")
	put(passed, float64(f.Rows.Skipped), "settled_before")
	put(passed, float64(f.Rows.Shared), "equal")
	put(passed, float64(f.Rows.Bad), "unusable")
	for what, count := range n.Failures {
		class, stage, _ := strings.Cut(what, "/")
		put(failed, float64(count), class, stage)
	}
	put(eta, remaining(f))
	inHand := map[[2]string]int{}
	for _, b := range f.Batches {
		at := "waiting"
		if b.Device != "" {
			at = "working"
		}
		inHand[[2]string{b.Stage, at}]++
	}
	for _, s := range f.Stages {
		put(batches, float64(inHand[[2]string{s.Stage, "waiting"}]), s.Stage, "waiting")
		put(batches, float64(inHand[[2]string{s.Stage, "working"}]), s.Stage, "working")
		put(stageRows, float64(s.Rows), s.Stage)
		put(stageTime, s.Busy, s.Stage)
		for _, w := range s.Beside {
			put(stageHost, w.Busy, s.Stage, w.Name)
		}
	}
	for _, d := range f.Devices {
		put(deviceBusy, boolValue(d.Stage != ""), d.Name)
		put(deviceTime, d.Busy, d.Name)
	}
}

// remaining returns the predicted remaining time of a run in seconds; NaN: not known.
func remaining(f runfiles.Facts) float64 {
	if f.ETA == 0 && f.Rows.Done+f.Rows.Failed < f.Rows.Total {
		return nan
	}
	return f.ETA
}

// boolValue returns 1 for true and 0 for false.
func boolValue(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Registry holds the metrics of a run.
type Registry struct {
	registry *prometheus.Registry
	batch    *prometheus.HistogramVec
}

// New returns the metrics of a run.
func New(run Run) *Registry {
	r := &Registry{registry: prometheus.NewRegistry(), batch: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: batch.Name, Help: batch.Help, Buckets: prometheus.ExponentialBuckets(0.01, 4, 10)}, batch.Labels)}
	r.registry.MustRegister(collector{run}, r.batch)
	return r
}

// Sink returns a sink that adds the durations of batches to the histogram.
func (r *Registry) Sink() board.Sink {
	return board.Sink{Record: func(s board.Span) {
		if s.Kind == board.Work || s.Kind == board.Wait {
			r.batch.WithLabelValues(s.Stage, string(s.Kind)).Observe(s.Seconds())
		}
	}}
}

// Serve answers GET /metrics at addr (host:port) until stop is called. It returns the actual address.
func (r *Registry) Serve(addr string) (at string, stop func(), err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "latentbeam: see /metrics")
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }()
	return l.Addr().String(), func() { s.Close() }, nil
}

// fileEvery is the interval at which the file is written.
const fileEvery = 15 * time.Second

// Write writes the file name every fileEvery, and a last time when ctx is canceled. Each write replaces the whole file.
func (r *Registry) Write(ctx context.Context, name string) error {
	tick := time.NewTicker(fileEvery)
	defer tick.Stop()
	for {
		if err := r.WriteNow(name); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return r.WriteNow(name)
		}
	}
}

// CheckFile returns an error if the node exporter would not read a file of this name.
func CheckFile(name string) error {
	if name != "" && !strings.HasSuffix(name, ".prom") {
		return errors.New("the node exporter reads only files that end with .prom")
	}
	return nil
}

// WriteNow writes the file name once.
func (r *Registry) WriteNow(name string) error {
	return prometheus.WriteToTextfile(name, r.registry)
}

// nan is the value of a metric that is not known.
var nan = math.NaN()
