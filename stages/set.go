package stages

import (
	"cmp"
	"context"
	"io"
	"time"

	"latentbeam/kernels"
)

// Set is a group of devices that work on one batch together. Each device is a rank. The devices of this process have the lowest
// ranks.
type Set struct {
	// Devices are the devices of this process.
	Devices []kernels.Backend
	// Speeds are the relative speeds of all ranks, also of other processes.
	Speeds []float64
	// Connect returns one transport for each of Devices, connected with all ranks, for one run. It is nil for a single device.
	// A transport that uses more than memory has a method Close.
	Connect func(ctx context.Context) ([]kernels.Transport, error)
	// Remote has the parts of other processes.
	Remote []Remote
	// Health ends, with the cause, when a device of this process can no longer be trusted; nil: it never does.
	Health context.Context
	// Patience is how long ranks wait for each other before a rank counts as missing. A rank that itself worked for longer
	// waits longer (see kernels.NewGroup). 0 means the constant patience.
	Patience time.Duration
	// Saving says how the steps of a sampler are saved; nil: they are not.
	Saving *Saving
	// Stay limits the number of blocks of the current stage that stay in the device memory of other processes; nil: no limit.
	Stay *int
}

// Remote is another process's part of a set.
type Remote struct {
	Ranks []int
	// Do runs a stage of the job on these ranks for an encoded batch. The process of rank 0 returns the encoded batch with its
	// results; other processes return nothing. saved receives the encoded steps of rows that rank 0 saves meanwhile.
	Do func(ctx context.Context, stage string, batch []byte, saved func(steps []byte) error) ([]byte, error)
}

// Alone returns the set of one device.
func Alone(dev kernels.Backend) *Set {
	return &Set{Devices: []kernels.Backend{dev}, Speeds: []float64{1}}
}

// Ranks returns the number of devices of the set, with those of other processes.
func (s *Set) Ranks() int { return len(s.Speeds) }

const (
	// patience is how long ranks wait for each other if nothing is known about the work between.
	patience = 2 * time.Minute
	// grace is how long a rank may take to stop after another one failed.
	grace = 30 * time.Second
)

// Run runs f for every device of this process, each on its own goroutine with its membership in the group, which is nil for a
// single device. The first error stops them all; see kernels.RunRanks.
func (s *Set) Run(ctx context.Context,
	f func(ctx context.Context, dev kernels.Backend, g *kernels.Group) error) error {
	if s.Connect == nil {
		return f(ctx, s.Devices[0], nil)
	}
	ends, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, end := range ends {
			if c, ok := end.(io.Closer); ok {
				c.Close()
			}
		}
	}()
	wait := cmp.Or(s.Patience, patience)
	run := func(ctx context.Context, i int, end kernels.Transport) error {
		return f(ctx, s.Devices[i], kernels.NewGroup(ctx, end, s.Devices[i], wait))
	}
	return kernels.RunRanks(ctx, ends, grace, run)
}
