package devices

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"latentbeam/internal/devices/nvml"

	"latentbeam/internal/cluster"
	"latentbeam/schemas/fault"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// Request is what a job asks of a worker process, one a connection. Its body is a coded batch.
type Request struct {
	// Job is how the job was started: its YAML and flags. The worker opens model and stages by it, from its own
	// disk, the first time.
	Job json.RawMessage `json:"job"`
	// Run tells runs of one job apart that are under way at the same time, such as shards. With End the run is over: what the
	// worker keeps for the job is given back with the last of them.
	Run string `json:"run,omitempty"`
	End bool   `json:"end,omitempty"`
	// Stopping says that the run is to end soon: the newest steps of its samplings are saved at once from then on.
	Stopping bool `json:"stopping,omitempty"`
	// Rows, without a stage, are what the job is going to compute, for the worker to arrange its weights by.
	Rows json.RawMessage `json:"rows,omitempty"`
	// Stage is the stage to run; "" asks only for what the worker has.
	Stage string `json:"stage,omitempty"`
	// Table, Ranks and Speeds are the set: who is where, which ranks are this worker's, and how fast each is.
	Table  cluster.Table `json:"table"`
	Ranks  []int         `json:"ranks,omitempty"`
	Speeds []float64     `json:"speeds,omitempty"`
	// Devices are the numbers of this worker's devices, one for each of its ranks.
	Devices []int `json:"devices,omitempty"`
	// Patience is how long its ranks wait for others that do not come.
	Patience time.Duration `json:"patience,omitempty"`
	// SaveEvery is how often the steps of a sampler are saved; nil: never.
	SaveEvery *time.Duration `json:"save_every,omitempty"`
	// Stay bounds the blocks of the stage that stay in the memory of devices, where an element did not fit beside them.
	Stay *int `json:"stay,omitempty"`
}

// Reply is the answer. Its body is the coded batch with its results, where the worker has rank 0.
type Reply struct {
	// Saved says that this is not the answer yet: the body is the coded steps of rows so far.
	Saved bool        `json:"saved,omitempty"`
	Error string      `json:"error,omitempty"`
	Kind  fault.Class `json:"kind,omitempty"` // of the error
	// Device says what is wrong with a device, where that is the error, or may be: "memory", "lost" or "not finite".
	Device string `json:"device,omitempty"`

	Speeds  []float64         `json:"speeds,omitempty"`  // of the worker's devices
	Memory  cost.Memory       `json:"memory"`            // of each; after a stage only where it has changed
	Class   string            `json:"class,omitempty"`   // numeric class of their results
	Weights map[string]string `json:"weights,omitempty"` // digest of each stage's weights
	// Layout is what the cost model knows of the devices, and Survey how they are linked, where the worker's pool does.
	Layout []layout.DeviceModel `json:"layout,omitempty"`
	// Labels tell the worker's devices apart; see lend.Hardware.
	Labels []string     `json:"labels,omitempty"`
	Survey *nvml.Survey `json:"survey,omitempty"`
}

// Describe adds what a pool knows of its devices and how they are linked.
func (r *Reply) Describe(devices Pool) {
	here := placeOf(devices)
	r.Layout, r.Survey = here.layout, here.survey
	if hw := devices.Capabilities().Hardware; hw != nil {
		for d := range r.Speeds {
			r.Labels = append(r.Labels, hw.Label(d))
		}
	}
}

// sound says what is wrong with an offer: what it describes must be the devices that it has.
func (r Reply) sound() error {
	n := len(r.Speeds)
	if n > maxWorkers || len(r.Layout) != 0 && len(r.Layout) != n {
		return fmt.Errorf("it describes %d of %d devices", len(r.Layout), n)
	}
	if len(r.Labels) != 0 && len(r.Labels) != n {
		return fmt.Errorf("it names %d of %d devices", len(r.Labels), n)
	}
	if s := r.Survey; s != nil {
		if len(s.Devices) != n || len(s.Links) != n {
			return fmt.Errorf("it surveys %d of %d devices", len(s.Devices), n)
		}
		for _, row := range s.Links {
			if len(row) != n {
				return fmt.Errorf("it surveys %d links of a device to %d", len(row), n)
			}
		}
	}
	return nil
}

// What can be wrong with a device, in a Reply.
const (
	outOfMemory = "memory"
	deviceLost  = "lost"
	notFinite   = "not finite"
)

// Failed returns the reply that reports err.
func Failed(err error) Reply {
	r := Reply{Error: err.Error(), Kind: fault.ClassOf(err)}
	switch {
	case fault.IsOutOfMemory(err):
		r.Device = outOfMemory
	case fault.IsDeviceLost(err):
		r.Device = deviceLost
	case fault.IsNotFinite(err):
		r.Device = notFinite
	}
	return r
}

// err is the error of the reply, nil if it has none.
func (r Reply) err() error {
	if r.Error == "" {
		return nil
	}
	err := errors.New(r.Error)
	switch r.Device {
	case outOfMemory:
		err = fault.OutOfMemory(err)
	case deviceLost:
		err = fault.DeviceLost(err)
	case notFinite:
		err = fault.NotFinite(err)
	}
	switch r.Kind {
	case fault.ClassRetry:
		return fault.Retry(err)
	case fault.ClassFatal:
		return fault.Fatal(err)
	}
	return fault.Row(err)
}
