package gpus

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/internal/devices/nvml/gputest"
	"latentbeam/kernels"
	"latentbeam/schemas/fault"
)

// TestOpen: which devices of a host a job gets, and why it does not get the others.
func TestOpen(t *testing.T) {
	u := gputest.UUID
	instance := func(i string) string { return "MIG-000000a" + i + "-1111-2222-3333-444444444444" }
	for _, c := range []struct {
		name    string
		host    *gputest.Host
		workers int               // resources.workers; 0: as many as there are
		hidden  []string          // devices that CUDA does not show
		refuses []string          // devices that cannot be opened
		old     []string          // devices that are too old
		changes map[string]string // classes that devices have once they are open
		want    []string          // devices of the pool
		left    []string          // part of the reason why each other device is left out, in the order of the UUIDs
	}{
		{name: "all", host: gputest.A100s(3), want: []string{u(0), u(1), u(2)}},
		{name: "some of an island", host: gputest.Islands(), workers: 3, want: []string{u(0), u(1), u(2)},
			left: []string{"asked for fewer", "fewer", "fewer", "fewer", "fewer"}},
		{name: "hidden ones break an island", host: gputest.Islands(), workers: 3, hidden: []string{u(1), u(2)},
			want: []string{u(4), u(5), u(6)}, left: []string{"fewer", "VISIBLE", "VISIBLE", "fewer", "fewer"}},
		{name: "one class", host: gputest.Mixed(), want: []string{u(1), u(3)},
			left: []string{"class cuda/sm_75, the job in cuda/sm_80", "class"}},
		{name: "MIG instances and a whole GPU", host: gputest.Divided(),
			want: []string{instance("0"), instance("1"), instance("2"), u(1)},
			left: []string{"divided"}},
		{name: "sick ones", host: gputest.Sick(), want: []string{u(0), u(1)},
			left: []string{"78.0 GiB of its 80.0 GiB are taken (pid 4242)", "lost"}},
		{name: "one that cannot be opened", host: gputest.T4s(2), refuses: []string{u(0)}, want: []string{u(1)},
			left: []string{"DEVICE_UNAVAILABLE"}},
		{name: "one that is too old", host: gputest.T4s(3), workers: 2, old: []string{u(1)}, want: []string{u(0), u(2)},
			left: []string{"too old: compute capability 6.1"}},
		{name: "one whose class is another once it is open", host: gputest.A100s(3), want: []string{u(0), u(2)},
			changes: map[string]string{u(1): "cuda/other"}, left: []string{"class cuda/other, the others in cuda/sm_80"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMaker(t, c.host)
			for _, uuid := range c.hidden {
				m.hidden[uuid] = true
			}
			for _, uuid := range c.refuses {
				m.refuses[uuid] = true
			}
			m.old, m.changes = map[string]string{}, c.changes
			for _, uuid := range c.old {
				m.old[uuid] = "too old: compute capability 6.1, needs 7.5"
			}
			claims := t.TempDir()
			p := openPool(t, c.host, m, Options{Workers: c.workers, Claims: claims})
			for _, l := range p.left { // other processes can claim what this one left out
				claimable(t, claims, l.UUID)
			}
			var got []string
			for _, d := range p.devices {
				got = append(got, d.UUID)
			}
			if !slices.Equal(got, c.want) || p.Size() != len(c.want) || len(p.Layout()) != len(c.want) {
				t.Errorf("the pool has %v, want %v", got, c.want)
			}
			slices.SortFunc(p.left, func(a, b Left) int { return strings.Compare(a.UUID, b.UUID) })
			if len(p.left) != len(c.left) {
				t.Fatalf("left out are %+v, want %q", p.left, c.left)
			}
			for i, part := range c.left {
				if !strings.Contains(p.left[i].Why, part) {
					t.Errorf("left out is %+v, want %q", p.left[i], part)
				}
			}
		})
	}
}

// TestTwoProcessesShare: three jobs share a host of 8 GPUs. Devices that one job has claimed are not given to another until the first closes
// its pool.
func TestTwoProcessesShare(t *testing.T) {
	host, claims := gputest.Islands(), t.TempDir()
	first := openPool(t, host, newMaker(t, host), Options{Workers: 4, Claims: claims, What: "run a.yaml"})
	second := openPool(t, host, newMaker(t, host), Options{Claims: claims})
	if second.Size() != 4 || second.devices[0].UUID != gputest.UUID(4) {
		t.Errorf("the second job has %d devices, the first is %s; want 4 from %s", second.Size(), second.devices[0].UUID, gputest.UUID(4))
	}
	_, err := Open(host, newMaker(t, host), Options{Claims: claims})
	if err == nil || errors.Is(err, ErrNone) || fault.ExitCode(err) != fault.ExitTryAgain ||
		!strings.Contains(err.Error(), "(run a.yaml) since") {
		t.Errorf("the third job, without a free device: got %v", err)
	}
	_, err = Open(host, newMaker(t, host), Options{Claims: claims, Workers: 2})
	if err == nil || !strings.Contains(err.Error(), "2 GPUs are asked for and 0 can be had") {
		t.Errorf("the third job asks for two: got %v", err)
	}
	first.Close()
	if _, err := Open(host, newMaker(t, host), Options{Claims: claims, Workers: 5}); err == nil {
		t.Error("a job that asks for 5 devices got a pool although only 4 are free")
	} // it must have released the four
	third := openPool(t, host, newMaker(t, host), Options{Claims: claims, Workers: 2})
	if third.Size() != 2 {
		t.Errorf("after the first job has ended, the third has %d devices, want 2", third.Size())
	}
	first.stop = func() {} // because the cleanup of openPool closes it again
}

// TestLinksOfTheCostModel: Layout tells the cost model the speed of the links of each device, and its island.
func TestLinksOfTheCostModel(t *testing.T) {
	const pcie4, pcie3 = 7.877e9 / 4 * 16 * pcieShare, 7.877e9 / 8 * 16 * pcieShare
	for _, c := range []struct {
		name    string
		host    *gputest.Host
		links   []float64 // bytes/s of each device to its island
		hosts   float64   // bytes/s of a device to the host
		islands int
	}{
		{"8xA100 at a switch", gputest.A100s(8), slices.Repeat([]float64{200e9}, 8), pcie4, 1},
		{"two boards with four NVLinks between each pair", gputest.Islands(), slices.Repeat([]float64{200e9 / 3}, 8), pcie4, 2},
		{"4xT4 on PCIe", gputest.T4s(4), slices.Repeat([]float64{5e9}, 4), pcie3, 4},
		{"MIG instances and a whole GPU", gputest.Divided(), []float64{pcie4, pcie4, pcie4, 200e9}, pcie4, 4},
		{"the A100 of a mixed host", gputest.Mixed(), []float64{200e9, 200e9}, pcie4, 1},
	} {
		p := openPool(t, c.host, newMaker(t, c.host), Options{})
		var links []float64
		islands := map[int]bool{}
		for i, d := range p.Layout() {
			links = append(links, d.Link)
			islands[d.Island] = true
			if math.Abs(d.Host/c.hosts-1) > 1e-3 {
				t.Errorf("%s: device %d has %g bytes/s to the host, want %g", c.name, i, d.Host, c.hosts)
			}
		}
		near := func(a, b float64) bool { return math.Abs(a/b-1) < 1e-3 }
		if !slices.EqualFunc(links, c.links, near) || len(islands) != c.islands {
			t.Errorf("%s: links %v on %d islands, want %v on %d", c.name, links, len(islands), c.links, c.islands)
		}
		if s := p.Survey(); len(s.Devices) != len(links) || len(s.Links) != len(links) || s.Devices[0].UUID != p.devices[0].UUID {
			t.Errorf("%s: the survey has %d devices", c.name, len(s.Devices))
		}
		p.Close()
		p.stop = func() {}
	}
}

// TestSetsFollowLinks: on a host with two islands of four, a set stays inside one island if it can, and takes the island with the fewest
// free devices that suffice, so that the other stays whole.
func TestSetsFollowLinks(t *testing.T) {
	host := gputest.Islands()
	p := openPool(t, host, newMaker(t, host), Options{})
	u := gputest.UUID
	lease := func(n int, want ...string) func(bool) {
		t.Helper()
		set, release, err := p.LeaseSet(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if got := uuids(set.Devices); !slices.Equal(got, want) {
			t.Errorf("a set of %d: got %v, want %v", n, got, want)
		}
		if (set.Connect != nil) != (n > 1) || set.Ranks() != n || set.HealthError() != nil {
			t.Errorf("a set of %d: Connect, Ranks or HealthError is wrong in %+v", n, set)
		}
		return release
	}
	one := lease(1, u(0))
	two := lease(2, u(1), u(2)) // of the island with fewer free devices
	four := lease(4, u(4), u(5), u(6), u(7))
	two(true)
	one(true)
	three := lease(3, u(0), u(1), u(2))
	four(true)
	five := lease(5, u(3), u(4), u(5), u(6), u(7))
	three(true)
	five(true)
	if set, release, err := p.LeaseSet(t.Context(), 20); err != nil || set.Ranks() != 8 {
		t.Errorf("a lease of 20 of 8 devices: got %v, %v; want 8", set, err)
	} else {
		release(true)
	}
}

// TestLeaseThese: LeaseThese gives exactly the devices asked for, in their order. It waits for a device that is in use, and fails for one that
// does not exist or is lost.
func TestLeaseThese(t *testing.T) {
	host := gputest.T4s(3)
	p := openPool(t, host, newMaker(t, host), Options{})
	for _, wrong := range [][]int{{3}, {-1}, {0, 0}} {
		if _, _, err := p.LeaseThese(t.Context(), wrong); err == nil {
			t.Errorf("LeaseThese(%v) gave no error", wrong)
		}
	}
	set, release, err := p.LeaseThese(t.Context(), []int{2, 0})
	if err != nil || !slices.Equal(uuids(set.Devices), []string{gputest.UUID(2), gputest.UUID(0)}) {
		t.Fatalf("%v, %v", set, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, _, err := p.LeaseThese(ctx, []int{1, 2}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a device that is in use: got %v, want a wait until the deadline", err)
	}
	release(true)
	host.Report(1, "xid", 79)
	waitFor(t, func() bool { return p.Size() == 2 })
	if _, _, err := p.LeaseThese(t.Context(), []int{0, 1}); !fault.IsDeviceLost(err) {
		t.Errorf("a device with an XID 79: got %v, want the error of a lost device", err)
	}
	if got := p.Speeds(); !slices.Equal(got, []float64{1, 0, 1}) {
		t.Errorf("got speeds %v, want 0 for the lost device only", got)
	}
}

// TestLeasesWait: a lease of two devices waits until both are released, and no longer.
func TestLeasesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := gputest.T4s(2)
		p := openPool(t, host, newMaker(t, host), Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, first, _ := p.LeaseSet(ctx, 1)
		_, second, _ := p.LeaseSet(ctx, 1)
		began := time.Now()
		got := make(chan int)
		go func() {
			set, release, err := p.LeaseSet(ctx, 2)
			if err == nil {
				release(true)
				got <- set.Ranks()
			}
		}()
		time.Sleep(time.Second)
		first(true)
		time.Sleep(time.Second)
		second(true)
		if n := <-got; n != 2 || time.Since(began) != 2*time.Second {
			t.Errorf("got %d devices after %v, want 2 after 2s", n, time.Since(began))
		}
		p.Close()
		p.stop = func() {}
	})
}

// TestNewBackendAfterFailure: after a failed lease the device is opened again, which gives a new backend. After a good lease it is not.
func TestNewBackendAfterFailure(t *testing.T) {
	host := gputest.T4s(1)
	m := newMaker(t, host)
	p := openPool(t, host, m, Options{})
	// lease returns the backend that it got. ok says how the lease ended.
	lease := func(ok bool) kernels.Backend {
		t.Helper()
		dev, release, err := devices.Lease(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		release(ok)
		return dev
	}
	first := lease(true)
	if again := lease(false); again != first {
		t.Error("there is a new backend after a good lease")
	}
	if again := lease(true); again == first {
		t.Error("there is the old backend after a failed lease")
	}
	m.refuses[gputest.UUID(0)] = true
	lease(false)
	_, _, err := devices.Lease(t.Context(), p)
	if fault.ExitCode(err) != fault.ExitTryAgain || !strings.Contains(err.Error(), "every GPU") {
		t.Errorf("the only device cannot be opened again: got %v", err)
	}
}

// TestMemory: the limit for batches is nine tenths of the free memory of the smallest device, less the weights, or what the job says. The
// target is half of it.
func TestMemory(t *testing.T) {
	host := gputest.Divided() // instances of 20 GiB and a GPU of 80
	p := openPool(t, host, newMaker(t, host), Options{})
	p.Weights(4 << 30)
	free := float64(20<<30 - 20<<30/128) // the host of gputest reserves 1/128
	if got, want := p.Memory().Limit, int64(free*0.9)-4<<30; got != want || p.Memory().Target != want/2 {
		t.Errorf("got %+v, want the limit %d", p.Memory(), want)
	}
	p.Weights(400 << 30)
	if got := p.Memory().Limit; got != 0 {
		t.Errorf("weights larger than the memory: got the limit %d, want 0", got)
	}
	p.o.Memory = 7 << 30
	if got := p.Memory().Limit; got != 7<<30 {
		t.Errorf("a job that gives 7 GiB: got the limit %d", got)
	}
}

// waitFor waits until f returns true, at most a minute.
func waitFor(t *testing.T, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition was not met within a minute")
		}
	}
}
