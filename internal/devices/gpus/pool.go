package gpus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/internal/devices/nvml"
	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// ErrNone is returned by Open if this process sees no GPU. A job may then compute on the CPU.
var ErrNone = errors.New("no GPU")

// Options are the options of Open.
type Options struct {
	Workers int    // number of devices; 0: all available
	Memory  int64  // bytes for batches on each device; 0: all that weights leave free
	Claims  string // directory of lock files; "": nvml.ClaimsDir
	What    string // description of this process for others that want the device: "run job.yaml"
	// Every is the interval of status checks; 0: two seconds.
	Every time.Duration
}

// Pool is a devices.Pool of GPUs of this host. The number of a device never changes.
type Pool struct {
	maker  Maker
	host   nvml.Host // nil without NVML
	survey nvml.Survey
	o      Options
	class  string
	left   []Left
	stop   func()

	mu      sync.Mutex
	devices []*pooled
	weights int64
	changed chan struct{} // closed and replaced when a device becomes free or is drained
}

// pooled is a device of the pool.
type pooled struct {
	nvml.Device
	index   int // in the survey
	plan    layout.DeviceModel
	be      kernels.Backend
	release func() // releases the claim
	drained string // why it was drained; "": it was not
	lease   *lease // current lease; nil: free
	log     record
}

// lease is a set of devices that compute one batch.
type lease struct {
	devices []int
	end     context.CancelCauseFunc // cancels stages.Set.Health
}

// Open claims and opens GPUs of this host that are visible to this process, healthy, free, and of one numeric class. host is
// nil without NVML; then links and health are unknown. Open returns ErrNone if there is no GPU. If no GPU can be used
// now, the error gives the reason for each, and the caller may try again later.
func Open(host nvml.Host, maker Maker, o Options) (*Pool, error) {
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	p := &Pool{maker: maker, host: host, o: o.filled(), changed: make(chan struct{})}
	fit, err := p.fit()
	if err != nil {
		return nil, err
	}
	if err := p.open(fit); err != nil {
		for _, d := range p.devices {
			d.release()
		}
		return nil, err
	}
	p.watch()
	return p, nil
}

// filled returns the options with defaults filled in.
func (o Options) filled() Options {
	if o.Claims == "" {
		o.Claims = nvml.ClaimsDir()
	}
	return o
}

// fit surveys the host and returns the devices that a job could use.
func (p *Pool) fit() ([]candidate, error) {
	visible, err := p.maker.Visible()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	}
	if len(visible) == 0 {
		return nil, ErrNone
	}
	if !slices.ContainsFunc(visible, func(v Visible) bool { return v.TooOld == "" }) {
		return nil, fmt.Errorf("%w that this program has kernels for: %s is %s", ErrNone, visible[0].Name, visible[0].TooOld)
	}
	if p.survey, err = survey(p.host, visible); err != nil {
		return nil, err
	}
	all, left := candidates(p.host, p.survey, visible)
	kept, others := oneClass(p.survey, all)
	p.left = slices.Concat(left, others)
	return kept, nil
}

// none returns the error for a host on which no device can be used.
func (p *Pool) none() error {
	return fault.TryAgain(fmt.Errorf("no GPU of this host can be used:%s", describe(p.left)))
}

// planned describes a candidate for the cost model.
func (p *Pool) planned(c candidate) layout.DeviceModel {
	d := planned(p.survey.Devices[c.index], c.free)
	d.Island = p.survey.Islands()[c.index]
	if n := bestPair(p.survey, c.index); n > 0 {
		d.Link = overNVLink(d, n)
	}
	return d
}

// Survey returns the pool's devices and their links, in the pool's order.
func (p *Pool) Survey() nvml.Survey {
	p.mu.Lock()
	defer p.mu.Unlock()
	var indexes []int
	for _, d := range p.devices {
		indexes = append(indexes, d.index)
	}
	return p.survey.Of(indexes)
}

// Close releases the devices. No lease may be open.
func (p *Pool) Close() {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.devices {
		d.release()
	}
}

// Weights sets the bytes of weights on every device; batches get the rest.
func (p *Pool) Weights(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weights = bytes
}

// Size returns the number of devices that are not drained.
func (p *Pool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size()
}

func (p *Pool) size() (n int) {
	for _, d := range p.devices {
		if d.drained == "" {
			n++
		}
	}
	return n
}

// Speeds returns the relative speed of every device; 0: drained.
func (p *Pool) Speeds() []float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]float64, len(p.devices))
	for i, d := range p.devices {
		if d.drained == "" {
			out[i] = p.speed(d)
		}
	}
	return out
}

// speed returns the speed of a device relative to the slowest of the pool.
func (p *Pool) speed(d *pooled) float64 {
	slowest := d.plan.Rate
	for _, other := range p.devices {
		slowest = min(slowest, other.plan.Rate)
	}
	return d.plan.Rate / slowest
}

// Changed returns a channel that is closed when a device becomes free or is drained.
func (p *Pool) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Memory returns the memory that a batch may use on any device.
func (p *Pool) Memory() cost.Memory {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.o.Memory > 0 {
		return cost.Memory{Target: p.o.Memory / 2, Limit: p.o.Memory}
	}
	var there []layout.DeviceModel
	for _, d := range p.devices {
		if d.drained == "" {
			there = append(there, d.plan)
		}
	}
	return layout.Offer(there, p.weights)
}

// Class returns the numeric class of the results.
func (p *Pool) Class() string { return p.class }

// Capabilities returns the optional abilities of GPU pools.
func (p *Pool) Capabilities() devices.PoolCapabilities {
	return devices.PoolCapabilities{Layout: p.Layout, Survey: p.Survey, Closest: p.Closest, Weights: p.Weights,
		Facts: p.Facts, Hardware: &devices.Hardware{Label: p.Label, Note: p.Record, Drain: p.Drain}}
}

// Layout returns the devices, by number, in the form of the cost model.
func (p *Pool) Layout() (out []layout.DeviceModel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.devices {
		out = append(out, d.plan)
	}
	return out
}
