package devices

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"latentbeam/internal/cluster"
	"latentbeam/internal/system/testaid"
	"latentbeam/schemas/fault"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// long is a time limit that no step of these tests reaches, even on a busy machine.
const long = 4 * time.Minute

// startWorker starts a worker that answers every request with reply, until stop is called. It returns the worker's address.
func startWorker(t *testing.T, addr string, token cluster.Token, reply Reply) (at string, stop func()) {
	t.Helper()
	node, err := cluster.Listen(addr, token)
	for began := time.Now(); err != nil && time.Since(began) < long/2; { // another program may have the port for a while
		time.Sleep(10 * time.Millisecond)
		node, err = cluster.Listen(addr, token)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := node.Accept(ctx)
			if err != nil {
				return
			}
			var r Request
			if _, err := conn.Receive(&r); err == nil {
				_ = conn.Send(reply, nil)
			}
			conn.Close()
		}
	}()
	return node.Addr(), func() {
		cancel()
		node.Close()
		<-ended
	}
}

// TestALostWorkerComesBack: a fleet whose only devices are those of a worker loses this worker. Its devices have speed 0 and cannot be
// leased. The fleet asks again, and a lease that waits gets the devices when a worker answers at the same address.
func TestALostWorkerComesBack(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	local, err := NewCPU(0, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	reply := Reply{Speeds: []float64{2, 1}, Class: local.Class()}
	reply.Memory.Limit = 1 << 20
	addr, stop := startWorker(t, "127.0.0.1:0", token, reply)
	f, err := Dial(t.Context(), local, token, []string{addr}, FleetJob{Start: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Size() != 2 || f.Memory().Limit != 1<<20 {
		t.Errorf("got %d devices with a limit of %d bytes, want 2 with 1 MiB", f.Size(), f.Memory().Limit)
	}
	set, release, err := f.LeaseThese(t.Context(), []int{1})
	if err != nil || len(set.Remote) != 1 || set.Speeds[0] != 1 {
		t.Fatalf("set %+v, %v", set, err)
	}
	stop()
	log := testaid.Log(t)
	_, err = set.Remote[0].Do(t.Context(), "denoise", nil, nil)
	if fault.ClassOf(err) != fault.ClassRetry {
		t.Errorf("a request to a stopped worker: got %v, want an error to retry", err)
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, addr) {
		t.Errorf("the log has no warning about %s: %q", addr, text)
	}
	release(false)
	if s := f.Speeds(); s[0] != 0 || s[1] != 0 {
		t.Errorf("the devices of a lost worker have the speeds %v, want 0", s)
	}
	if _, _, err := f.LeaseThese(t.Context(), []int{0}); fault.ClassOf(err) != fault.ClassRetry {
		t.Errorf("a lease of a lost device: got %v, want an error to retry", err)
	}
	changed := f.Changed()
	_, stop = startWorker(t, addr, token, reply)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	set, release, err = f.LeaseSet(ctx, 2)
	if err != nil || set.Ranks() != 2 {
		t.Fatalf("after the worker is back: got set %+v, %v; want 2 devices", set, err)
	}
	<-changed
	release(true)
}

// TestALostWorkerIsGivenUp: after maxAsks requests without an answer, a worker is given up. If no other is left, leases fail.
func TestALostWorkerIsGivenUp(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	local, _ := NewCPU(0, 1, 0)
	addr, stop := startWorker(t, "127.0.0.1:0", token, Reply{Speeds: []float64{1}, Class: local.Class()})
	f, err := Dial(t.Context(), local, token, []string{addr}, FleetJob{Start: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stop()
	f.hosts[0].asked = maxAsks
	set, release, err := f.LeaseSet(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = set.Remote[0].Do(t.Context(), "denoise", nil, nil)
	release(false)
	if _, _, err := f.LeaseSet(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "no worker is left") {
		t.Errorf("got error %v, want %q", err, "no worker is left")
	}
}

// TestARefusedWorker: all devices of a fleet must be of one class: the class of this process or, if it has no devices, of its first worker.
// After a worker was refused, nothing of the fleet stays open. A worker that cannot be reached is only a warning if there are other devices.
func TestARefusedWorker(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	none, _ := NewCPU(0, 1, 0)
	one, _ := NewCPU(1, 1, 0)
	gpus, stop := startWorker(t, "127.0.0.1:0", token, Reply{Speeds: []float64{1}, Class: "cuda/sm_80"})
	defer stop()
	others, stop := startWorker(t, "127.0.0.1:0", token, Reply{Speeds: []float64{1}, Class: "cuda/sm_90"})
	defer stop()
	dial := func(local *CPU, addrs ...string) (f *Fleet, err error) {
		f = newFleet(local, token, FleetJob{Start: json.RawMessage("{}")})
		defer f.Close()
		if err = f.dial(t.Context(), addrs); err == nil {
			return f, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		if _, waiting := f.node.Accept(ctx); f.end.Err() == nil || !errors.Is(waiting, net.ErrClosed) {
			t.Errorf("after the error %v the fleet is still open", err)
		}
		return f, err
	}
	if f, err := dial(none, gpus); err != nil || f.Class() != "cuda/sm_80" {
		t.Errorf("got class %s, %v; want the worker's class cuda/sm_80", f.Class(), err)
	}
	for _, local := range []*CPU{one, none} {
		addrs := []string{"127.0.0.1:1"} // nobody listens there
		if local == none {
			addrs = append(addrs, gpus)
		}
		if f, err := dial(local, addrs...); err != nil || f.Size() != 1 {
			t.Errorf("one device, and a worker that cannot be reached: %v", err)
		}
	}
	if _, err := dial(none, "127.0.0.1:1"); err == nil || strings.Count(err.Error(), "worker 127.0.0.1:1") != 1 {
		t.Errorf("only a worker that cannot be reached: got %v, want an error that names it once", err)
	}
	for _, c := range []struct {
		local *CPU
		addrs []string
		want  string
	}{
		{one, []string{gpus}, "this process in cpu/"},
		{one, []string{gpus}, "or set resources.workers to 0"},
		{none, []string{gpus, others}, "computes in class cuda/sm_90, worker " + gpus + " in cuda/sm_80"},
	} {
		if _, err := dial(c.local, c.addrs...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got error %v, want %q", err, c.want)
		}
	}
}

// TestLinksTakeMemory: links between GPUs of several hosts reduce the memory for batches, unless the job gives its size.
func TestLinksTakeMemory(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	none, _ := NewCPU(0, 1, 0)
	const memory = 16 << 30
	// memoryOf returns the memory for batches of a fleet of workers with two devices each.
	memoryOf := func(class string, job FleetJob, workers int) int64 {
		t.Helper()
		var addrs []string
		for range workers {
			reply := Reply{Speeds: []float64{1, 1}, Class: class, Memory: cost.Memory{Limit: memory, Target: memory / 2}}
			addr, stop := startWorker(t, "127.0.0.1:0", token, reply)
			defer stop()
			addrs = append(addrs, addr)
		}
		job.Start = json.RawMessage("{}")
		f, err := Dial(t.Context(), none, token, addrs, job)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if m := f.Memory(); m.Target != m.Limit/2 {
			t.Errorf("got target %d, want half of the limit %d", m.Target, m.Limit)
		}
		return f.Memory().Limit
	}
	for _, c := range []struct {
		class   string
		job     FleetJob
		workers int
		want    int64
	}{
		{"cuda/sm_80", FleetJob{Link: true}, 2, memory - layout.Linked(4)},
		{"cuda/sm_80", FleetJob{Link: true}, 1, memory},
		{"cuda/sm_80", FleetJob{}, 2, memory},
		{"cuda/sm_80", FleetJob{Link: true, Given: true}, 2, memory},
		{"cpu/avx2", FleetJob{Link: true}, 2, memory},
	} {
		if got := memoryOf(c.class, c.job, c.workers); got != c.want {
			t.Errorf("%s, %d workers, %+v: got %d bytes for batches, want %d", c.class, c.workers, c.job, got, c.want)
		}
	}
}

// TestLabels: the label of a device is its host and, if the worker sends names, its name. The devices of a CPU share one label.
func TestLabels(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	local, _ := NewCPU(2, 1, 0)
	reply := Reply{Speeds: []float64{1, 1}, Class: local.Class()}
	plain, stop := startWorker(t, "127.0.0.1:0", token, reply)
	defer stop()
	reply.Labels = []string{"GPU-a", "GPU-b"}
	named, stop := startWorker(t, "127.0.0.1:0", token, reply)
	defer stop()
	f, err := Dial(t.Context(), local, token, []string{plain, named}, FleetJob{Start: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d, want := range []string{"this host", "this host", plain, plain, named + " GPU-a", named + " GPU-b"} {
		if got := f.Label(d); got != want {
			t.Errorf("device %d is %q, want %q", d, got, want)
		}
		f.Record(d, "an event") // a fleet keeps no events; this must not panic
	}
	reply.Labels = reply.Labels[:1]
	if err := reply.validate(); err == nil || !strings.Contains(err.Error(), "it names 1 of 2 devices") {
		t.Errorf("one name for two devices: got %v", err)
	}
}

// draining is a pool of this process whose first device is drained when gone is closed.
type draining struct {
	*CPU
	gone chan struct{}
}

func (d draining) Changed() <-chan struct{} {
	if d.Speeds()[0] == 0 {
		return nil // no further change will come
	}
	return d.gone
}

func (d draining) Speeds() []float64 {
	select {
	case <-d.gone:
		return []float64{0, 1}
	default:
		return []float64{1, 1}
	}
}

// TestADrainedDeviceIsPassedOn: one of two devices is leased, and a lease of two waits. When the leased one is drained, the lease that
// waits gets the other device, although nothing was released.
func TestADrainedDeviceIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cpu, err := NewCPU(2, 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		local := draining{cpu, make(chan struct{})}
		f, err := Dial(t.Context(), local, cluster.Token("a secret of the tests"), nil, FleetJob{Start: json.RawMessage("{}")})
		if err != nil {
			t.Fatal(err)
		}
		_, release, err := f.LeaseThese(t.Context(), []int{0})
		if err != nil {
			t.Fatal(err)
		}
		defer release(false)
		got := make(chan int)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			set, release, err := f.LeaseSet(ctx, 2)
			if err != nil {
				got <- 0
				return
			}
			release(true)
			got <- set.Ranks()
		}()
		synctest.Wait() // until LeaseSet waits
		changed := f.Changed()
		close(local.gone)
		if n := <-got; n != 1 {
			t.Fatalf("got a set of %d devices, want 1", n)
		}
		<-changed
		f.Close()
	})
}

// TestDrainedDevicesOfAFleet: a worker's device that was drained has speed 0 and is leased no more, neither alone nor in a set. A device of
// this process cannot be drained here, because the pool of processors has no Drain.
func TestDrainedDevicesOfAFleet(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	local, _ := NewCPU(1, 1, 0)
	addr, stop := startWorker(t, "127.0.0.1:0", token, Reply{Speeds: []float64{1, 1}, Class: local.Class()})
	defer stop()
	f, err := Dial(t.Context(), local, token, []string{addr}, FleetJob{Start: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	changed := f.Changed()
	if f.Drain(0, "a test") || !f.Drain(1, "a test") || f.Speeds()[1] != 0 || f.Speeds()[2] == 0 {
		t.Errorf("the speeds are %v, want 0 for device 1 only", f.Speeds())
	}
	<-changed
	if _, _, err := f.LeaseThese(t.Context(), []int{0, 1}); !fault.IsDeviceLost(err) {
		t.Errorf("a lease of the drained device: got %v, want the error of a lost device", err)
	}
	set, release, err := f.LeaseSet(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Ranks(); got != 2 {
		t.Errorf("a lease of 3 devices got %d, want the 2 that are not drained", got)
	}
	release(true)
}

// TestAFleetLearnsWhatBlocksGaveBack: a worker that starts to stream its blocks through memory, in place of keeping all of them there, has
// more room for batches. It sends its new limit with a reply. A reply without a limit leaves the known one.
func TestAFleetLearnsWhatBlocksGaveBack(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	local, _ := NewCPU(0, 1, 0)
	for _, limit := range []int64{0, 1 << 30} { // in the reply; 0: none
		reply := Reply{Speeds: []float64{1}, Class: local.Class(), Memory: cost.Memory{Target: limit / 2, Limit: limit}}
		addr, stop := startWorker(t, "127.0.0.1:0", token, reply)
		defer stop()
		f, err := Dial(t.Context(), local, token, []string{addr}, FleetJob{Start: json.RawMessage("{}")})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		f.hosts[0].memory = cost.Memory{Target: 50, Limit: 100}
		set, release, err := f.LeaseSet(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := set.Remote[0].Do(t.Context(), "denoise", nil, nil); err != nil {
			t.Fatal(err)
		}
		release(true)
		if want := max(100, limit); f.Memory().Limit != want {
			t.Errorf("a reply with the limit %d: got %+v, want the limit %d", limit, f.Memory(), want)
		}
	}
}
