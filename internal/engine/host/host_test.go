package host

import (
	"context"
	"errors"
	"slices"
	"testing"

	"latentbeam/internal/devices"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// cards is a pool of devices with a memory of their own, which it takes weights from.
type cards struct {
	n       int
	memory  int64
	weights int64 // as it was told
	leased  int
}

// card is a device.
type card struct{ kernels.Backend }

func (card) Device() string { return "card" }

func (c *cards) LeaseSet(context.Context, int) (*stages.Set, func(bool), error) {
	c.leased++
	return stages.Alone(card{}), func(bool) {}, nil
}
func (c *cards) LeaseThese(ctx context.Context, d []int) (*stages.Set, func(bool), error) {
	return c.LeaseSet(ctx, len(d))
}
func (c *cards) Size() int              { return c.n }
func (c *cards) Speeds() []float64      { return slices.Repeat([]float64{1}, c.n) }
func (*cards) Changed() <-chan struct{} { return nil }
func (*cards) Memory() cost.Memory      { return cost.Memory{} }
func (*cards) Class() string            { return "fake" }
func (c *cards) Capabilities() devices.PoolCapabilities {
	return devices.PoolCapabilities{Weights: func(bytes int64) { c.weights = bytes }, Layout: func() []layout.DeviceModel {
		return slices.Repeat([]layout.DeviceModel{{Rate: 1e12, Link: 1e9, Host: 1e9, Memory: c.memory}}, c.n)
	}}
}

// model is a stage of four blocks of 20 bytes and 20 that belong to none.
type model struct {
	stay  int
	load  func() error
	loads int
}

func (*model) Digest() string                              { return "" }
func (*model) Check(*schemas.PromptRow) error              { return nil }
func (*model) Need(*schemas.PromptRow, int) (int64, error) { return 10, nil }
func (*model) Run(context.Context, kernels.Backend, []*stages.Element) error {
	return errors.New("this stage computes nothing")
}
func (m *model) Capabilities() stages.Capabilities {
	return stages.Capabilities{
		Cost: func(*schemas.PromptRow) (cost.Estimate, error) {
			return cost.Estimate{Weights: 100, Parts: []int64{20, 20, 20, 20, 20}, Work: 1, Rounds: 1}, nil
		},
		Loading: &stages.Loading{
			Load: func(kernels.Backend) error { m.loads++; return m.load() },
			Hold: func(h cost.Placement) error {
				if m.stay = 4; h.Streamed {
					m.stay = h.Stay
				}
				return nil
			},
			Staying: func() (int, int) { return m.stay, 4 },
			Stream:  func(stay int) { m.stay = stay },
		},
	}
}

// newStages is a job of one such stage on these devices.
func newStages(d *Devices) (*Stages, *model) {
	m := &model{load: func() error { return nil }}
	h := &Stages{Steps: []stages.Step{{Name: "denoise", Stage: m}}}
	h.SetDevices(d)
	return h, m
}

var rows = []schemas.PromptRow{{Width: 8, Height: 8, NumFrames: 1}}

// TestWeightsOfSeveralJobs: the devices know what the weights of all jobs take; a job gets the memory that the others
// leave. Streamed blocks and forgotten jobs give theirs back.
func TestWeightsOfSeveralJobs(t *testing.T) {
	pool := &cards{n: 1, memory: 205}
	d := NewDevices(pool)
	first, m := newStages(d)
	second, _ := newStages(d)
	arrange := func(h *Stages) {
		t.Helper()
		if err := h.Arrange(rows, 1); err != nil {
			t.Fatal(err)
		}
	}
	arrange(first)
	if pool.weights != 100 || first.Placements()[0].Streamed {
		t.Errorf("%d bytes are told of one job: %+v", pool.weights, first.Placements())
	}
	arrange(second)
	if took := second.Bytes(); took >= 100 || took == 0 || pool.weights != 100+took {
		t.Errorf("beside 100 bytes of 205 another job takes %d, %d are told", took, pool.weights)
	}
	took := second.Bytes()
	if !first.Free(0, rows[0], 1) || m.stay != 1 || pool.weights != 80+took {
		t.Errorf("%d blocks stay, %d bytes are told, want %d", m.stay, pool.weights, 80+took)
	}
	if first.Free(0, rows[0], 1) || first.Free(0, rows[0], 3) {
		t.Error("blocks that pass are let pass again")
	}
	d.Forget(first)
	arrange(second)
	if second.Bytes() != 100 || pool.weights != 100 {
		t.Errorf("alone the job takes %d bytes, %d are told", second.Bytes(), pool.weights)
	}
}

// TestLoad: a lost device is no reason to give up as long as there are others; any other error is. Weights are loaded
// again only where they lie otherwise.
func TestLoad(t *testing.T) {
	pool := &cards{n: 3, memory: 1000}
	h, m := newStages(NewDevices(pool))
	if err := h.Arrange(rows, 1); err != nil {
		t.Fatal(err)
	}
	m.load = func() error {
		if m.loads < 3 {
			return fault.DeviceLost(errors.New("off the bus"))
		}
		return nil
	}
	if err := h.Load(t.Context()); err != nil || m.loads != 3 {
		t.Errorf("%v after %d loads", err, m.loads)
	}
	if err := h.Reload(t.Context()); err != nil || m.loads != 3 {
		t.Errorf("%v, loaded again", err)
	}
	h.Freed(0, rows[0], 1)
	if err := h.Reload(t.Context()); err != nil || m.loads != 4 {
		t.Errorf("%v, %d loads of what lies otherwise", err, m.loads)
	}
	m.load, m.loads = func() error { return fault.DeviceLost(errors.New("off the bus")) }, 0
	if err := h.Load(t.Context()); !fault.IsDeviceLost(err) || m.loads != 3 {
		t.Errorf("%v after %d loads of three devices that are lost", err, m.loads)
	}
}
