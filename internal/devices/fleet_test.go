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

// long is more than anything here takes, on a machine that does much else.
const long = 4 * time.Minute

// answering is a worker that says what it has, until stop.
func answering(t *testing.T, addr string, token cluster.Token, reply Reply) (at string, stop func()) {
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

// A worker that is lost is asked again, and lent again when it is back. A fleet without devices of its own
// waits for it.
func TestALostWorkerComesBack(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	local, err := NewCPU(0, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	reply := Reply{Speeds: []float64{2, 1}, Class: local.Class()}
	reply.Memory.Limit = 1 << 20
	addr, stop := answering(t, "127.0.0.1:0", token, reply)
	f, err := Dial(t.Context(), local, token, []string{addr}, FleetJob{Start: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Size() != 2 || f.Memory().Limit != 1<<20 {
		t.Errorf("%d devices with %d bytes", f.Size(), f.Memory().Limit)
	}
	set, release, err := f.LeaseThese(t.Context(), []int{1})
	if err != nil || len(set.Remote) != 1 || set.Speeds[0] != 1 {
		t.Fatalf("set %+v, %v", set, err)
	}
	stop()
	log := testaid.Log(t)
	_, err = set.Remote[0].Do(t.Context(), "denoise", nil, nil)
	if fault.ClassOf(err) != fault.ClassRetry {
		t.Errorf("a worker that is gone is the error %v", err)
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, addr) {
		t.Errorf("the log says %q", text)
	}
	release(false)
	if s := f.Speeds(); s[0] != 0 || s[1] != 0 {
		t.Errorf("devices of a lost worker have the speeds %v", s)
	}
	if _, _, err := f.LeaseThese(t.Context(), []int{0}); fault.ClassOf(err) != fault.ClassRetry {
		t.Errorf("a device that is gone is the error %v", err)
	}
	came := f.Changed()
	_, stop = answering(t, addr, token, reply)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	set, release, err = f.LeaseSet(ctx, 2)
	if err != nil || set.Ranks() != 2 {
		t.Fatalf("set %+v, %v", set, err)
	}
	<-came
	release(true)
}

// A worker that stays away is given up; without any other the job has to end.
func TestALostWorkerIsGivenUp(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	local, _ := NewCPU(0, 1, 0)
	addr, stop := answering(t, "127.0.0.1:0", token, Reply{Speeds: []float64{1}, Class: local.Class()})
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
		t.Errorf("error %v", err)
	}
}

// A worker that is refused leaves nothing of the fleet behind. The class is that of this process or, where that has no
// devices, of the first worker.
func TestARefusedWorker(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	none, _ := NewCPU(0, 1, 0)
	one, _ := NewCPU(1, 1, 0)
	gpus, stop := answering(t, "127.0.0.1:0", token, Reply{Speeds: []float64{1}, Class: "cuda/sm_80"})
	defer stop()
	others, stop := answering(t, "127.0.0.1:0", token, Reply{Speeds: []float64{1}, Class: "cuda/sm_90"})
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
			t.Errorf("after %v the fleet is open", err)
		}
		return f, err
	}
	if f, err := dial(none, gpus); err != nil || f.Class() != "cuda/sm_80" {
		t.Errorf("%v, class %s", err, f.Class())
	}
	for _, local := range []*CPU{one, none} { // where other devices are there it is a warning
		addrs := []string{"127.0.0.1:1"}
		if local == none {
			addrs = append(addrs, gpus)
		}
		if f, err := dial(local, addrs...); err != nil || f.Size() != 1 {
			t.Errorf("beside one that is not there: %v", err)
		}
	}
	if _, err := dial(none, "127.0.0.1:1"); err == nil || strings.Count(err.Error(), "worker 127.0.0.1:1") != 1 {
		t.Errorf("nobody listens: %v", err)
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
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// Links between GPUs of several hosts take of the memory for batches, unless the job says how much that is.
func TestLinksTakeMemory(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	none, _ := NewCPU(0, 1, 0)
	const memory = 16 << 30
	offer := func(class string, job FleetJob, workers int) int64 {
		t.Helper()
		var addrs []string
		for range workers {
			reply := Reply{Speeds: []float64{1, 1}, Class: class, Memory: cost.Memory{Limit: memory, Target: memory / 2}}
			addr, stop := answering(t, "127.0.0.1:0", token, reply)
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
			t.Errorf("%+v", m)
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
		if got := offer(c.class, c.job, c.workers); got != c.want {
			t.Errorf("%s, %d workers, %+v: %d bytes are offered, want %d", c.class, c.workers, c.job, got, c.want)
		}
	}
}

// Devices are told apart by host and, where a worker does, by name; the processors of a host are one piece of hardware.
func TestLabels(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	local, _ := NewCPU(2, 1, 0)
	reply := Reply{Speeds: []float64{1, 1}, Class: local.Class()}
	plain, stop := answering(t, "127.0.0.1:0", token, reply)
	defer stop()
	reply.Labels = []string{"GPU-a", "GPU-b"}
	named, stop := answering(t, "127.0.0.1:0", token, reply)
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
		f.Record(d, "nothing is kept of it")
	}
	reply.Labels = reply.Labels[:1]
	if err := reply.validate(); err == nil || !strings.Contains(err.Error(), "it names 1 of 2 devices") {
		t.Errorf("one name for two: %v", err)
	}
}

// draining is a pool of this process whose first device is gone when it says so.
type draining struct {
	*CPU
	gone chan struct{}
}

func (d draining) Changed() <-chan struct{} {
	if d.Speeds()[0] == 0 {
		return nil // and nothing more happens
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

// Who waits for two devices gets the one that is left when the other is drained, although nothing was given back.
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
		synctest.Wait() // it waits
		changed := f.Changed()
		close(local.gone)
		if n := <-got; n != 1 {
			t.Fatalf("a set of %d devices", n)
		}
		<-changed
		f.Close()
	})
}

// TestDrainedDevicesOfAFleet: a device of a worker that is drained is lent no more, alone or in a set, and is not there;
// one of this process only where its pool can.
func TestDrainedDevicesOfAFleet(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	local, _ := NewCPU(1, 1, 0)
	addr, stop := answering(t, "127.0.0.1:0", token, Reply{Speeds: []float64{1, 1}, Class: local.Class()})
	defer stop()
	f, err := Dial(t.Context(), local, token, []string{addr}, FleetJob{Start: json.RawMessage("{}")})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	changed := f.Changed()
	if f.Drain(0, "a test") || !f.Drain(1, "a test") || f.Speeds()[1] != 0 || f.Speeds()[2] == 0 {
		t.Errorf("the speeds are %v", f.Speeds())
	}
	<-changed
	if _, _, err := f.LeaseThese(t.Context(), []int{0, 1}); !fault.IsDeviceLost(err) {
		t.Errorf("a set with the drained device: %v", err)
	}
	set, release, err := f.LeaseSet(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Ranks(); got != 2 {
		t.Errorf("a set of all has %d devices", got)
	}
	release(true)
}

// TestAFleetLearnsWhatBlocksGaveBack: a worker whose blocks pass through memory from now on has more room for batches,
// and says so with its answer; an answer that says nothing leaves it.
func TestAFleetLearnsWhatBlocksGaveBack(t *testing.T) {
	token := cluster.Token("a secret of the tests")
	local, _ := NewCPU(0, 1, 0)
	for _, more := range []int64{0, 1 << 30} {
		reply := Reply{Speeds: []float64{1}, Class: local.Class(), Memory: cost.Memory{Target: more / 2, Limit: more}}
		addr, stop := answering(t, "127.0.0.1:0", token, reply)
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
		if want := max(100, more); f.Memory().Limit != want {
			t.Errorf("batches may take %+v, want %d", f.Memory(), want)
		}
	}
}
