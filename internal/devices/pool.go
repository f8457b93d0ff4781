package devices

import (
	"context"

	"latentbeam/internal/devices/nvml"
	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// Pool lends devices to batches. They are known by number, from 0, and may come and go. internal/devices implements it.
type Pool interface {
	// LeaseSet waits for n free devices, or for all where there are fewer; release gives them back and says whether
	// the work on them went well. A device that was left in the middle of something is made anew before it is lent again.
	LeaseSet(ctx context.Context, n int) (set *stages.Set, release func(ok bool), err error)
	// LeaseThese is LeaseSet for these devices. Its error is to be tried again when one of them is gone.
	LeaseThese(ctx context.Context, devices []int) (set *stages.Set, release func(ok bool), err error)
	// Size returns how many leases can be out at once.
	Size() int
	// Speeds returns the relative speed of every device, 0 for one that is not there now.
	Speeds() []float64
	// Changed returns a channel that is closed when devices have come or are gone; nil where they never do.
	Changed() <-chan struct{}
	// Memory returns what a batch may use on one device.
	Memory() cost.Memory
	// Class returns the numeric class of the devices' results.
	Class() string
	// Capabilities says what only some pools can.
	Capabilities() PoolCapabilities
}

// PoolCapabilities says what a pool can do beyond its other methods. A field that is left out means that it cannot.
type PoolCapabilities struct {
	// Planned says that the pool lends nothing: a job is only planned for its devices.
	Planned bool
	// Layout returns the devices, by number, as the cost model knows them.
	Layout func() []layout.DeviceModel
	// Survey returns how the devices are linked, by number.
	Survey func() nvml.Survey
	// Closest returns n of the free devices, those that exchange fastest, in ascending order.
	Closest func(free []int, n int) []int
	// Weights takes down how many bytes of weights lie beside the batches; Memory is less by them.
	Weights func(bytes int64)
	// Facts returns what the summary of the run says of the devices, to be written as JSON.
	Facts func() any
	// Hardware tells the devices apart; nil: they are alike, and what one computes wrongly any other would.
	Hardware *Hardware
}

// Hardware tells the devices of a pool apart: what one computes wrongly another may compute well.
type Hardware struct {
	// Label names the hardware of a device for people; devices of one label are one piece of it.
	Label func(device int) string
	// Note takes down for the summary of the run what happened to a device.
	Note func(device int, event string)
	// Drain takes a device out: it is lent no more in this run. It reports whether it could.
	Drain func(device int, why string) bool
}

// Lease waits for a free device of the pool, as LeaseSet does for some.
func Lease(ctx context.Context, p Pool) (dev kernels.Backend, release func(ok bool), err error) {
	set, release, err := p.LeaseSet(ctx, 1)
	if err != nil {
		return nil, nil, err
	}
	return set.Devices[0], release, nil
}
