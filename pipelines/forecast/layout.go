package forecast

import (
	"context"
	"errors"
	"runtime"

	"latentbeam/internal/config"
	"latentbeam/internal/devices"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/host"
	"latentbeam/internal/engine/schedule"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// Predictor predicts the run of a job.
type Predictor struct {
	Config *config.Config
	Engine *engine.Engine
	Host   *host.Stages
	Local  devices.Pool   // devices of this process
	Fleet  *devices.Fleet // devices of this process and of other hosts; nil: no other hosts
}

// BucketPlan describes how the new rows of one bucket are divided among devices.
type BucketPlan struct {
	BucketRows
	Batch  int // rows in a batch when it is formed; waiting batches may be merged
	Stages []cost.Estimate
	layout.Outcome
	Run schedule.Outlook // simulated run; empty if there are too many devices
	// Fails is the reason why these rows cannot be computed; nil: they can. Other rows of the job are not affected.
	Fails error
}

// Split returns how a set divides the work of the denoiser; nil: the job has no denoiser.
func (l BucketPlan) Split() *cost.Split {
	for _, s := range l.Stages {
		if s.Split != nil {
			return s.Split
		}
	}
	return nil
}

// Devices returns the devices that the job is planned for: those of another machine, or the workers of this
// machine, measured now in the kernels of the job.
func (j *Predictor) Devices(w Work) ([]layout.DeviceModel, error) {
	if j.Fleet != nil && j.Fleet.LayoutKnown() {
		return j.Fleet.Layout(), nil
	}
	local, err := j.measurable()
	if err != nil {
		return nil, err
	}
	if known := local.Capabilities().Layout; known != nil { // a table knows them
		return known(), nil
	}
	work, err := j.kernels(w)
	if err != nil {
		return nil, err
	}
	dev, release, err := devices.Lease(context.Background(), local) // the first
	if err != nil {
		return nil, err
	}
	setup := devices.Setup{Class: dev.Class(), Device: dev.Device(), Workers: local.Size(), Threads: j.Config.Resources.Threads,
		Cores: runtime.GOMAXPROCS(0)}
	speed, err := devices.Measure(dev, setup, work)
	release(err == nil)
	price := speed.Price
	price.Calls = 0 // Call stands for them: a batch starts its kernels once, whatever the number of its elements
	d := layout.Priced(work, price)
	d.Call = speed.Price.Calls
	d.Name, d.Memory, d.Latency = dev.Device(), j.Engine.Schedule.Pool.Memory().Limit, memoryLatency
	d.Link, d.Host = speed.Bandwidth, speed.Bandwidth
	if d.Mapped = d.Name == "cpu"; d.Mapped {
		d.Processors = setup.Processors()
	}
	devices := make([]layout.DeviceModel, j.Engine.Schedule.Pool.Size())
	if n := runtime.GOMAXPROCS(0); d.Mapped && len(devices) > n { // workers take turns on the processors
		d.Rate *= float64(n) / float64(len(devices))
	}
	if d.Mapped && j.Host.Over() == 0 { // with what batches leave to the weights
		d.Sharers = len(devices)
		d.Memory += j.Host.Bytes() / int64(d.Sharers)
	}
	for i := range devices {
		devices[i] = d
	}
	speeds := local.Speeds() // workers have not all as many threads as the first
	for i := range min(len(speeds), len(devices)) {
		devices[i].Rate *= speeds[i] / speeds[0]
	}
	if j.Fleet != nil {
		j.Fleet.AssignHosts(devices)
	}
	return devices, err
}

// kernels are the kernels of a row of every shape; of a job whose stages do not say what they cost, a product.
func (j *Predictor) kernels(w Work) (all cost.Kernels, err error) {
	for _, b := range w.Buckets {
		costs, err := j.costs(b.First)
		if err != nil {
			return all, err
		}
		for _, c := range costs {
			all.Add(c.Kernels, float64(b.Keys))
		}
	}
	if all.Work() == 0 {
		all.Products[kernels.OpLinear][kernels.F32].FLOP = 1
	}
	return all, nil
}

// measurable returns a pool for measurements: the devices of this process, or a CPU worker if the job uses no devices of this
// process. The devices of other hosts are assumed to be equal to it.
func (j *Predictor) measurable() (devices.Pool, error) {
	if j.Local.Size() > 0 {
		return j.Local, nil
	}
	return devices.NewCPU(1, j.Config.Resources.Threads, 0)
}

// memoryLatency is the latency of an exchange through shared memory in seconds, in which all ranks
// synchronise twice.
const memoryLatency = 20e-6

// layouts returns the plan for every shape. A shape that cannot be computed on the devices has Fails set, with its line in
// the configuration; layouts returns an error if no shape can be computed. If others is true, it also lists slower
// alternatives.
func (j *Predictor) layouts(ctx context.Context, w Work, devices []layout.DeviceModel, others bool) ([]BucketPlan, error) {
	if err := j.Prepare(ctx, w); err != nil {
		return nil, err
	}
	run := j.foresight(devices, j.Host.Placements())
	var out []BucketPlan
	failed := 0
	for _, b := range w.Buckets {
		l := BucketPlan{BucketRows: b}
		var err error
		if l.Stages, err = j.costs(b.First); err != nil {
			return nil, err
		}
		query := layout.Query{
			Stages: l.Stages, Devices: devices, Elements: int(b.Keys), MaxBatch: j.Engine.Schedule.MaxBatch, Placements: j.Host.Placements(),
		}
		if n, err := j.Engine.Schedule.BatchSize(&b.First); err == nil { // else the search says what does not fit
			query.AtOnce, l.Batch = n, n
		}
		if l.Outcome, err = layout.Search(query); err == nil && run != nil {
			err = l.foresee(*run, query, others)
		}
		var none *layout.Infeasible
		switch {
		case errors.As(err, &none):
			l.Fails = j.infeasible(b, none)
			failed++
		case err != nil:
			return nil, err
		}
		out = append(out, l)
	}
	if failed > 0 && failed == len(out) {
		return nil, out[0].Fails
	}
	return out, nil
}

// costs returns the costs of rows like row in every stage.
func (j *Predictor) costs(row schemas.PromptRow) ([]cost.Estimate, error) {
	return host.Costs(j.Engine.Schedule.Steps, row)
}

// infeasible adds the place in the configuration to an error of a search.
func (j *Predictor) infeasible(b BucketRows, none *layout.Infeasible) error {
	path := "input" // where the rows with this size come from
	switch d := j.Config.Defaults; {
	case none.Reason != "":
		path = "stages.denoise.sequence_parallel"
	case d.NumFrames != 0:
		path = "defaults.num_frames"
	case d.Height == b.Shape.Height:
		path = "defaults.height"
	}
	return j.Config.Errorf(path, "%s, %d rows: %v", b.Shape, b.Rows, none).WithFix("%s", none.Fix)
}
