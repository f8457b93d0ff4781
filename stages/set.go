package stages

import (
	"cmp"
	"context"
	"io"
	"time"

	"latentbeam/kernels"
)

// Set is the devices that work on one batch together; each is a rank. Those of this process have the lowest
// ranks.
type Set struct {
	// Devices are those of this process.
	Devices []kernels.Backend
	// Speeds are the relative speeds of all ranks, elsewhere included.
	Speeds []float64
	// Connect returns the ends of Devices for one run, connected with all ranks; nil for a device alone. Ends
	// that are more than memory have a method Close.
	Connect func(ctx context.Context) ([]kernels.Transport, error)
	// Away are the ranks of other processes.
	Away []Away
	// Well ends, with the cause, when a device of this process is no longer to be trusted; nil: never.
	Well context.Context
	// Patience is how long ranks wait for each other before one counts as missing, unless they have worked long
	// themselves (see kernels.NewGroup); 0: patience.
	Patience time.Duration
	// Saving is how the steps of a sampler are saved; nil: they are not.
	Saving *Saving
	// Stay bounds the blocks of the stage at work that stay in the memory of devices in other processes; nil: it does not.
	Stay *int
}

// Away is what another process has of a set.
type Away struct {
	Ranks []int
	// Do runs a stage of the job on these ranks, for a coded batch. The process of rank 0 answers with the coded
	// batch and its results, the others with nothing. saved is given the coded steps of rows that rank 0 saves meanwhile.
	Do func(ctx context.Context, stage string, batch []byte, saved func(steps []byte) error) ([]byte, error)
}

// Alone is the set of one device.
func Alone(dev kernels.Backend) *Set {
	return &Set{Devices: []kernels.Backend{dev}, Speeds: []float64{1}}
}

// Ranks returns how many devices the set has, elsewhere included.
func (s *Set) Ranks() int { return len(s.Speeds) }

const (
	// patience is how long ranks wait for each other where nothing is known of the work between.
	patience = 2 * time.Minute
	// grace is how long a rank may take to stop when another has failed.
	grace = 30 * time.Second
)

// Run runs f for every device of this process, each on a goroutine of its own with its membership in the
// group, nil for a device alone. The first error ends them all; see kernels.Together.
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
	return kernels.Together(ctx, ends, grace, run)
}
