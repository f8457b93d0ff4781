// Package host is the stages of a job in one process, the one that submits it or one that works for it: opened from its
// disk, arranged on its devices, loaded, and freed while the job runs.
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

// Stages are the stages of one job in this process. Arrange, Load and Reload are for one caller at a time; Free may be
// called beside them.
type Stages struct {
	Config   *config.Config
	Model    string         // its name
	Terms    []stages.Terms // under which its weights were published
	Steps    []stages.Step
	Adapters []stages.Adapted  // that were added to the denoisers
	Defaults schemas.PromptRow // what rows are filled up with
	Facts    []memory.Fact     // what earlier runs learned of memory
	Lacks    []string          // what of the model is not there, of a job that is only planned

	devices  *Devices
	places   []int       // numbers of the steps in the file; nil: as they come
	isLoaded bool        // once
	loaded   []cost.Held // how the weights lay then
	held     []cost.Held // how they lie; under the lock of the devices
	over     int64       // what they take beyond the memory that there is
}

// LorasJSON lists the adapters of the denoisers as JSON, "" for none. An adapter of both of two denoisers is there once.
func (h *Stages) LorasJSON() string {
	all := slices.CompactFunc(slices.Clone(h.Adapters), func(a, b stages.Adapted) bool { return a.Number == b.Number })
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all) // a struct of plain values
	return string(text)
}

// Close gives back what the stages hold beyond memory. Nothing is computed any more.
func (h *Stages) Close() { closeSteps(h.Steps) }

// Ready says what this host lacks for a stage to run, with its place in the file; nil: nothing.
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

// On says on which devices the stages are. It comes before all that is asked of weights.
func (h *Stages) On(d *Devices) { h.devices = d }

// Held returns how the weights of the steps lie.
func (h *Stages) Held() []cost.Held {
	h.devices.mu.Lock()
	defer h.devices.mu.Unlock()
	return slices.Clone(h.held)
}

// Bytes returns what the weights take as they lie.
func (h *Stages) Bytes() int64 { return sizeOf(h.Held()) }

// Over returns what the weights take beyond the memory that there is, in bytes.
func (h *Stages) Over() int64 {
	h.devices.mu.Lock()
	defer h.devices.mu.Unlock()
	return h.over
}

// Devices are the devices of this process, and the weights of all jobs on them.
type Devices struct {
	devices.Pool
	mu      sync.Mutex
	weights map[*Stages]int64 // bytes, of those whose weights have room
}

// NewDevices returns the devices of a pool, without weights.
func NewDevices(pool devices.Pool) *Devices {
	return &Devices{Pool: pool, weights: map[*Stages]int64{}}
}

// Forget takes the weights of a job off the books; nil: there is nothing to forget.
func (d *Devices) Forget(h *Stages) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.weights, h)
}

// reserve tells devices with a memory of their own what weights take of it, which it returns.
func (d *Devices) reserve() (all int64) {
	for _, bytes := range d.weights {
		all += bytes
	}
	if told := d.Capabilities().Weights; told != nil {
		told(all)
	}
	return all
}

// Known returns what is known of devices without measuring them.
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

// sizeOf returns the bytes that weights take which lie so.
func sizeOf(held []cost.Held) (bytes int64) {
	for _, h := range held {
		bytes += h.Bytes
	}
	return bytes
}
