package gpus

import (
	"slices"
	"time"

	"latentbeam/internal/devices/nvml"
)

// maxEvents bounds the recorded events of a device. The first ones are retained, because they tell most.
const maxEvents = 32

// record sums the status checks and events of a device during the job.
type record struct {
	Leases           int
	samples          int
	utilization      float64 // sum
	peak             int64
	hottest          int
	power, mostPower float64 // sum, and most
	throttled        map[string]time.Duration
	events           []string
}

func (r *record) event(text string) {
	if len(r.events) < maxEvents {
		r.events = append(r.events, text)
	}
}

// add records a status check that represents the time every.
func (r *record) add(s nvml.DeviceStatus, every time.Duration) {
	r.samples++
	r.utilization += float64(max(0, s.Utilization))
	r.peak = max(r.peak, s.Used)
	r.hottest = max(r.hottest, s.Temperature)
	r.power += max(0, s.Power)
	r.mostPower = max(r.mostPower, s.Power)
	if r.throttled == nil {
		r.throttled = map[string]time.Duration{}
	}
	for _, reason := range s.Throttle.Hurting().Reasons() {
		r.throttled[reason] += every
	}
}

// UsageFacts is a run's report about its devices. Means and peaks come from status checks every few seconds.
type UsageFacts struct {
	Driver  nvml.Driver   `json:"driver"`
	Devices []DeviceFacts `json:"devices"`
	Left    []Left        `json:"not_used,omitempty"`
	Staged  int64         `json:"through_host_bytes,omitempty"` // copied between devices without peer access
}

// DeviceFacts is the report about one device.
type DeviceFacts struct {
	UUID        string             `json:"uuid"`
	Name        string             `json:"name"`
	PCI         string             `json:"pci,omitempty"`
	Leases      int                `json:"batches"`
	Utilization float64            `json:"mean_utilization_percent"`
	PeakMemory  int64              `json:"peak_memory_bytes"` // with weights and everything else on the device
	Hottest     int                `json:"max_temperature_c"`
	Power       float64            `json:"mean_power_w"`
	MostPower   float64            `json:"max_power_w"`
	Throttled   map[string]float64 `json:"throttled_seconds,omitempty"`
	Events      []string           `json:"events,omitempty"`
	Drained     string             `json:"drained,omitempty"` // why it was drained
}

// Facts returns a UsageFacts of the run so far.
func (p *Pool) Facts() any {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := UsageFacts{Driver: p.survey.Driver, Left: p.left, Staged: p.maker.Staged()}
	for _, d := range p.devices {
		n := float64(max(1, d.log.samples))
		one := DeviceFacts{UUID: d.UUID, Name: d.Name, PCI: d.PCI, Leases: d.log.Leases, Drained: d.drained,
			Utilization: d.log.utilization / n, PeakMemory: d.log.peak, Hottest: d.log.hottest,
			Power: d.log.power / n, MostPower: d.log.mostPower, Events: slices.Clone(d.log.events)}
		for reason, t := range d.log.throttled {
			if one.Throttled == nil {
				one.Throttled = map[string]float64{}
			}
			one.Throttled[reason] = t.Seconds()
		}
		f.Devices = append(f.Devices, one)
	}
	return f
}
