package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// LeaseSet waits for n free devices, or for all if the fleet has fewer.
func (f *Fleet) LeaseSet(ctx context.Context, n int) (*stages.Set, func(ok bool), error) {
	return f.lease(ctx, func() ([]int, error) { return f.choose(n) })
}

// LeaseThese waits until the devices with these numbers are free.
func (f *Fleet) LeaseThese(ctx context.Context, devices []int) (*stages.Set, func(ok bool), error) {
	devices = slices.Compact(slices.Sorted(slices.Values(devices)))
	if len(devices) == 0 || devices[0] < 0 || devices[len(devices)-1] >= f.Size() {
		return nil, nil, fmt.Errorf("lease devices %v of %d", devices, f.Size())
	}
	return f.lease(ctx, func() ([]int, error) {
		for _, h := range f.hosts {
			for _, d := range devices {
				if h.lost && d >= h.first && d < h.first+len(h.speeds) {
					return nil, fault.Retry(fmt.Errorf("worker %s is lost", h.addr))
				}
			}
		}
		if slices.ContainsFunc(devices, f.drained) {
			return nil, fault.DeviceLost(errors.New("a device of a worker is drained"))
		}
		if slices.ContainsFunc(devices, func(d int) bool { return f.busy[d] }) {
			return nil, nil
		}
		return devices, nil
	})
}

// lease waits until choose finds devices, and makes a set of them. choose is called with mu held.
func (f *Fleet) lease(ctx context.Context, choose func() ([]int, error)) (*stages.Set, func(ok bool), error) {
	for {
		f.mu.Lock()
		devices, err := choose()
		for _, d := range devices {
			f.busy[d] = true
		}
		changed := f.changed
		f.mu.Unlock()
		if err != nil {
			return nil, nil, err
		}
		if len(devices) > 0 {
			set, release, err := f.set(ctx, devices)
			if err != nil {
				f.release(devices)
				return nil, nil, err
			}
			return set, func(ok bool) { release(ok); f.release(devices) }, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// choose returns n free devices with the fastest links; none if fewer are free.
func (f *Fleet) choose(n int) ([]int, error) {
	there, hoped := 0, false
	for _, speed := range f.local.Speeds() {
		if speed > 0 {
			there++
		}
	}
	free := f.free(0, f.here)
	for _, h := range f.hosts {
		if hoped = hoped || h.retrying; !h.lost {
			free = append(free, f.free(h.first, len(h.speeds))...)
			for d := range len(h.speeds) {
				if !f.drained(h.first + d) {
					there++
				}
			}
		}
	}
	if there == 0 && !hoped {
		return nil, fault.TryAgain(errors.New("no worker is left: start them again and run the job again"))
	}
	if n = min(n, there); n == 0 || len(free) < n {
		return nil, nil
	}
	return f.Closest(free, n), nil
}

// free returns the free ones of the count devices from number first.
func (f *Fleet) free(first, count int) (out []int) {
	gone := f.drained
	if first < f.here {
		speeds := f.local.Speeds()
		gone = func(d int) bool { return speeds[d] == 0 }
	}
	for d := first; d < first+count; d++ {
		if !f.busy[d] && !gone(d) {
			out = append(out, d)
		}
	}
	return out
}

// drained reports whether a worker's device is drained.
func (f *Fleet) drained(device int) bool { return device >= f.here && f.speeds[device] == 0 }

func (f *Fleet) release(devices []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range devices {
		f.busy[d] = false
	}
	f.notifyWaiters()
}

// notifyWaiters wakes all goroutines that wait for devices.
func (f *Fleet) notifyWaiters() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// set makes a set of devices. Their numbers must be ascending; ranks have the same order.
func (f *Fleet) set(ctx context.Context, devices []int) (set *stages.Set, release func(ok bool), err error) {
	mine, _ := slices.BinarySearch(devices, f.here)
	set, release = &stages.Set{}, func(bool) {}
	if mine > 0 {
		if set, release, err = f.local.LeaseThese(ctx, devices[:mine]); err != nil {
			return nil, nil, err
		}
	}
	if mine == len(devices) {
		return set, release, nil
	}
	addrs := make([]string, mine)
	ranks, theirs := map[*host][]int{}, map[*host][]int{}
	for _, h := range f.hosts {
		for rank := mine; rank < len(devices); rank++ {
			if i := devices[rank] - h.first; i >= 0 && i < len(h.speeds) {
				addrs = append(addrs, h.addr)
				set.Speeds = append(set.Speeds, h.speeds[i])
				ranks[h], theirs[h] = append(ranks[h], rank), append(theirs[h], i)
			}
		}
	}
	table := cluster.NewTable(addrs)
	table.Link = f.linked()
	for _, h := range f.hosts {
		if len(ranks[h]) == 0 {
			continue
		}
		set.Remote = append(set.Remote, stages.Remote{Ranks: ranks[h],
			Do: func(ctx context.Context, stage string, batch []byte, saved func([]byte) error) ([]byte, error) {
				r := Request{Stage: stage, Table: table, Ranks: ranks[h], Devices: theirs[h],
					Speeds: set.Speeds, Patience: set.Patience, Stay: set.Stay}
				if s := set.Saving; s != nil {
					r.SaveEvery = &s.Every
					if s.Stopping != nil && ranks[h][0] == 0 {
						defer context.AfterFunc(s.Stopping, func() { f.notifyStopping(h) })()
					}
				}
				reply, body, err := f.call(ctx, h, r, batch, saved)
				if reply.Memory.Limit > 0 {
					f.mu.Lock()
					h.memory = reply.Memory
					f.mu.Unlock()
				}
				return body, err
			}})
	}
	set.Connect = func(ctx context.Context) ([]kernels.Transport, error) {
		ctx, cancel := context.WithTimeout(ctx, JoinTime)
		defer cancel()
		return f.node.Join(ctx, table, numbers(0, mine), set.Devices)
	}
	return set, release, nil
}

// numbers returns n consecutive numbers, starting with first.
func numbers(first, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = first + i
	}
	return out
}
