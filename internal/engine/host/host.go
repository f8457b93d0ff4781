// Package host manages the stages of a job in one process, which is the submitter or a worker. It opens them from disk,
// places their weights on the devices, loads them, and frees memory while the job runs.
package host

import (
	"encoding/json"
	"slices"
	"sync"

	"latentbeam/internal/config"
	"latentbeam/internal/devices"
	"latentbeam/internal/engine/memory"
	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// Stages are the stages of one job in this process. Arrange, Load and Reload must not be called concurrently; Free may be
// called at any time.
type Stages struct {
	Config   *config.Config
	Model    string         // name of the model
	Terms    []stages.Terms // licences of the weights
	Steps    []stages.Step
	Adapters []stages.Adapted  // adapters of the denoisers
	Defaults schemas.PromptRow // defaults of a row's missing parameters
	Facts    []memory.Fact     // memory that batches needed in earlier runs
	Lacks    []string          // missing components of the model, when the job is only planned

	devices  *Devices
	places   []int            // index of each step in the file; nil: 0, 1, 2, ...
	isLoaded bool             // Load was called
	loaded   []cost.Placement // placement of the weights at Load
	held     []cost.Placement // current placement; guarded by devices.mu
	over     int64            // bytes by which weights exceed the memory
}

// LorasJSON lists the adapters of the denoisers as JSON, "" for none. An adapter of both denoisers is listed once.
func (h *Stages) LorasJSON() string {
	all := slices.CompactFunc(slices.Clone(h.Adapters), func(a, b stages.Adapted) bool { return a.Number == b.Number })
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all) // a struct of plain values
	return string(text)
}

// Close releases files and processes of the stages. They must not be used after Close.
func (h *Stages) Close() { closeSteps(h.Steps) }

// Ready returns an error, with the stage's place in the file, if this host lacks something that a stage needs.
func (h *Stages) Ready() error {
	for i, s := range h.Steps {
		if ready := s.Capabilities().Ready; ready != nil {
			if err := ready(); err != nil {
				return located(h.Config, i, err)
			}
		}
	}
	return nil
}

// SetDevices sets the devices of the stages. Call it before all methods that concern weights.
func (h *Stages) SetDevices(d *Devices) { h.devices = d }

// Placements returns where the weights of each step are.
func (h *Stages) Placements() []cost.Placement {
	h.devices.mu.Lock()
	defer h.devices.mu.Unlock()
	return slices.Clone(h.held)
}

// Bytes returns the memory of the weights in bytes.
func (h *Stages) Bytes() int64 { return sizeOf(h.Placements()) }

// Over returns by how many bytes the weights exceed the memory.
func (h *Stages) Over() int64 {
	h.devices.mu.Lock()
	defer h.devices.mu.Unlock()
	return h.over
}

// Devices are the devices of this process. It accounts for the weights of all jobs on them.
type Devices struct {
	devices.Pool
	mu      sync.Mutex
	weights map[*Stages]int64 // bytes reserved for weights, by job
}

// NewDevices returns the devices of a pool, without weights.
func NewDevices(pool devices.Pool) *Devices {
	return &Devices{Pool: pool, weights: map[*Stages]int64{}}
}

// Forget releases the memory reserved for a job's weights. It does nothing if none is reserved.
func (d *Devices) Forget(h *Stages) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.weights, h)
}

// reserve returns the bytes that all weights take, and passes the number to pools that track weights.
func (d *Devices) reserve() (all int64) {
	for _, bytes := range d.weights {
		all += bytes
	}
	if setWeights := d.Capabilities().Weights; setWeights != nil {
		setWeights(all)
	}
	return all
}

// Known returns a model of the devices without measuring them.
func Known(devices devices.Pool) []layout.DeviceModel {
	if known := devices.Capabilities().Layout; known != nil {
		return known()
	}
	out := layout.Ranks(devices.Speeds())
	for i := range out {
		out[i].Memory, out[i].Mapped = devices.Memory().Limit, true
	}
	return out
}

// sizeOf sums the bytes of weights.
func sizeOf(held []cost.Placement) (bytes int64) {
	for _, h := range held {
		bytes += h.Bytes
	}
	return bytes
}
