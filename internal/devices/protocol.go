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

// Request is a job's request to a worker process; there is one for each connection. Its body is a coded batch.
type Request struct {
	// Job holds the YAML and the flags that started the job. At the first request the worker opens the model and stages from
	// its own disk.
	Job json.RawMessage `json:"job"`
	// Run identifies one of several concurrent runs of a job, such as shards. End says that the run is over. The worker frees
	// the job's memory after the last run.
	Run string `json:"run,omitempty"`
	End bool   `json:"end,omitempty"`
	// Stopping says that the run will end soon. From then on the worker saves the newest steps of its samplings at once.
	Stopping bool `json:"stopping,omitempty"`
	// Rows, without a stage, are the job's expected rows. The worker places its weights for them.
	Rows json.RawMessage `json:"rows,omitempty"`
	// Stage is the stage to run; "": the worker only describes its devices.
	Stage string `json:"stage,omitempty"`
	// Table, Ranks and Speeds describe the set: the address of each rank, the worker's own ranks, and the speed of each rank.
	Table  cluster.Table `json:"table"`
	Ranks  []int         `json:"ranks,omitempty"`
	Speeds []float64     `json:"speeds,omitempty"`
	// Devices are the numbers of this worker's devices, one for each of its ranks.
	Devices []int `json:"devices,omitempty"`
	// Patience is how long a rank waits for another one.
	Patience time.Duration `json:"patience,omitempty"`
	// SaveEvery is the work between two saves of a sampler's steps; nil: steps are not saved.
	SaveEvery *time.Duration `json:"save_every,omitempty"`
	// Stay bounds the stage's blocks that are resident in device memory; nil: no bound.
	Stay *int `json:"stay,omitempty"`
}

// Reply is a worker's answer. If the worker has rank 0, the body is the coded batch with its results.
type Reply struct {
	// Saved marks an intermediate reply, whose body is the coded saved steps of rows. The answer follows.
	Saved bool        `json:"saved,omitempty"`
	Error string      `json:"error,omitempty"`
	Kind  fault.Class `json:"kind,omitempty"` // class of the error
	// Device says what is wrong with a device if a device may have caused the error: "memory", "lost" or "not finite".
	Device string `json:"device,omitempty"`

	Speeds  []float64         `json:"speeds,omitempty"`  // of the worker's devices
	Memory  cost.Memory       `json:"memory"`            // of each device; after a stage only if it has changed
	Class   string            `json:"class,omitempty"`   // numeric class of their results
	Weights map[string]string `json:"weights,omitempty"` // digest of each stage's weights
	// Layout describes the devices for the cost model, and Survey their links, if the worker's pool knows them.
	Layout []layout.DeviceModel `json:"layout,omitempty"`
	// Labels identify the worker's hardware; see Hardware.
	Labels []string     `json:"labels,omitempty"`
	Survey *nvml.Survey `json:"survey,omitempty"`
}

// Describe adds the description of a pool's devices and links.
func (r *Reply) Describe(devices Pool) {
	here := placeOf(devices)
	r.Layout, r.Survey = here.layout, here.survey
	if hw := devices.Capabilities().Hardware; hw != nil {
		for d := range r.Speeds {
			r.Labels = append(r.Labels, hw.Label(d))
		}
	}
}

// validate returns an error if the descriptions in a reply do not match the number of its devices.
func (r Reply) validate() error {
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

// Values of Reply.Device.
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

// err returns the error of the reply, or nil.
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
