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

// ErrNone is the error of Open where this process sees no GPU at all; a job may compute on the CPU then.
var ErrNone = errors.New("no GPU")

// Options say what a job takes.
type Options struct {
	Workers int    // devices; 0: all that can be had
	Memory  int64  // for batches, on each; 0: what is free beside the weights
	Claims  string // directory of lock files; "": that of the host
	What    string // this process, to others that find a device taken: "run job.yaml"
	// Every is how often devices are looked at; 0: every two seconds.
	Every time.Duration
}

// Pool is some GPUs of this host. It is a lend.Pool: a device is known by its number, which stays.
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
	changed chan struct{} // closed and made anew when a device comes free or is drained
}

// pooled is one of the pool's.
type pooled struct {
	nvml.Device
	index   int // in the survey
	plan    layout.DeviceModel
	be      kernels.Backend
	release func() // the claim
	drained string // why it is not lent any more
	lease   *lease // that it is in, nil when free
	log     record
}

// lease is devices at work on one batch.
type lease struct {
	devices []int
	end     context.CancelCauseFunc // of stages.Set.Well
}

// Open takes GPUs of this host: visible to this process, healthy, free, and all of one numeric class. host may be
// nil, where there is no NVML: then nothing is known of links and health. ErrNone where there is none; where there
// are some and none can be used, the error says why of each, and another time may be better.
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

// filled returns the options with what they leave open.
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

// none is the error where none of the devices can be used.
func (p *Pool) none() error {
	return fault.TryAgain(fmt.Errorf("no GPU of this host can be used:%s", describe(p.left)))
}

// planned is what the cost model knows of a candidate.
func (p *Pool) planned(c candidate) layout.DeviceModel {
	d := planned(p.survey.Devices[c.index], c.free)
	d.Island = p.survey.Islands()[c.index]
	if n := bestPair(p.survey, c.index); n > 0 {
		d.Link = overNVLink(d, n)
	}
	return d
}

// Survey returns how the pool's devices are linked, in their order.
func (p *Pool) Survey() nvml.Survey {
	p.mu.Lock()
	defer p.mu.Unlock()
	var indexes []int
	for _, d := range p.devices {
		indexes = append(indexes, d.index)
	}
	return p.survey.Of(indexes)
}

// Close gives the devices back. Nothing may be leased any more.
func (p *Pool) Close() {
	p.stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.devices {
		d.release()
	}
}

// Weights says how many bytes of weights will be on every device beside the batches.
func (p *Pool) Weights(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weights = bytes
}

// Size returns how many devices there are that were not drained.
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

// Speeds returns the devices' relative speeds, 0 for one that was drained.
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

// speed is a device's relative to the slowest of the pool.
func (p *Pool) speed(d *pooled) float64 {
	slowest := d.plan.Rate
	for _, other := range p.devices {
		slowest = min(slowest, other.plan.Rate)
	}
	return d.plan.Rate / slowest
}

// Changed returns a channel that is closed when a device comes free or is drained.
func (p *Pool) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Memory returns what a batch may use on any one device.
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

// Capabilities says what is known of GPUs and can be done with them.
func (p *Pool) Capabilities() devices.PoolCapabilities {
	return devices.PoolCapabilities{Layout: p.Layout, Survey: p.Survey, Closest: p.Closest, Weights: p.Weights,
		Facts: p.Facts, Hardware: &devices.Hardware{Label: p.Label, Note: p.Record, Drain: p.Drain}}
}

// Layout returns the devices by number, as the cost model takes them.
func (p *Pool) Layout() (out []layout.DeviceModel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.devices {
		out = append(out, d.plan)
	}
	return out
}
