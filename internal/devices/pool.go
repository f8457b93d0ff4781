package devices

import (
	"context"

	"latentbeam/internal/devices/nvml"
	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// Pool lends devices to batches. Devices are numbered from 0 and may be lost and return.
type Pool interface {
	// LeaseSet waits for n free devices, or for all if the pool has fewer. The caller must call release; ok says whether
	// the batch succeeded. After a failure the pool opens the device again before it lends it.
	LeaseSet(ctx context.Context, n int) (set *stages.Set, release func(ok bool), err error)
	// LeaseThese is LeaseSet for these devices. If one of them is lost, the error has class retry.
	LeaseThese(ctx context.Context, devices []int) (set *stages.Set, release func(ok bool), err error)
	// Size returns the number of devices.
	Size() int
	// Speeds returns the relative speed of every device; 0: it is lost or drained.
	Speeds() []float64
	// Changed returns a channel that is closed when devices are lost or return; nil: that never happens.
	Changed() <-chan struct{}
	// Memory returns the memory that a batch may use on one device.
	Memory() cost.Memory
	// Class returns the numeric class of the devices' results.
	Class() string
	// Capabilities returns the optional abilities of the pool.
	Capabilities() PoolCapabilities
}

// PoolCapabilities are the optional abilities of a pool. A nil field means that the pool lacks the ability.
type PoolCapabilities struct {
	// Planned says that the pool lends no devices and only serves to plan a job.
	Planned bool
	// Layout returns the devices, by number, in the form of the cost model.
	Layout func() []layout.DeviceModel
	// Survey returns how the devices are linked, by number.
	Survey func() nvml.Survey
	// Closest returns n of the free devices with the fastest links, in ascending order.
	Closest func(free []int, n int) []int
	// Weights sets the bytes of memory that weights take; Memory then returns less.
	Weights func(bytes int64)
	// Facts returns facts about the devices for the summary of the run, to be encoded as JSON.
	Facts func() any
	// Hardware identifies single devices; nil: they are the same hardware, with the same faults.
	Hardware *Hardware
}

// Hardware identifies the devices of a pool, so that a batch can be retried on other hardware.
type Hardware struct {
	// Label names the hardware of a device for people. Devices with one label share the hardware.
	Label func(device int) string
	// Note records an event of a device for the summary of the run.
	Note func(device int, event string)
	// Drain removes a device from the pool for the rest of this run. It reports whether it did.
	Drain func(device int, why string) bool
}

// Lease waits for one free device of the pool; see Pool.LeaseSet.
func Lease(ctx context.Context, p Pool) (dev kernels.Backend, release func(ok bool), err error) {
	set, release, err := p.LeaseSet(ctx, 1)
	if err != nil {
		return nil, nil, err
	}
	return set.Devices[0], release, nil
}
