package devices

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"latentbeam/internal/devices/nvml"

	"latentbeam/internal/cluster"
	"latentbeam/schemas/fault"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// SaveTime is how long a worker that is canceled or told to stop may take to send its saved steps.
const SaveTime = 3 * time.Second

// JoinTime is how long the ranks of a set may take to connect.
const JoinTime = time.Minute

// Fleet is a pool of the devices of this process, followed by the devices of worker processes on other hosts. A lease
// prefers devices of one process. A worker that does not answer counts as lost, and is asked again a few times.
type Fleet struct {
	local  Pool
	here   int // number of devices of this process
	node   *cluster.Node
	job    FleetJob
	run    string // see Request.Run
	class  string // numeric class; "": no process with devices has answered yet
	hosts  []*host
	speeds []float64       // of all devices; 0: a worker's drained device; guarded by mu
	end    context.Context // canceled by Close; ends regain and follow
	close  context.CancelFunc
	asking sync.WaitGroup // goroutines of regain and follow

	mu      sync.Mutex
	rows    json.RawMessage // see Request.Rows
	busy    []bool          // by number
	changed chan struct{}   // closed and replaced when devices become free, return or are lost
}

// host is a worker process.
type host struct {
	addr     string
	first    int                  // number of its first device
	layout   []layout.DeviceModel // nil: not known
	labels   []string             // nil: its devices are equal
	survey   *nvml.Survey         // nil: its links are unknown
	speeds   []float64
	memory   cost.Memory // of each device
	lost     bool
	retrying bool // lost, and still being asked
	asked    int  // times it was asked in this run
}

// FleetJob describes the job of a fleet to its workers.
type FleetJob struct {
	Start   json.RawMessage   // see Request.Job
	Weights map[string]string // digest of each stage's weights
	Link    bool              // devices of several hosts may be linked; see transport.Table
	Given   bool              // the job gives the memory for batches; weights do not reduce it
}

// Dial connects to the workers at addrs and returns a fleet of their devices and the devices of local. If local has no
// devices, the first worker decides the numeric class of the job. All workers must open the same job with the same
// weights and the same class, because otherwise results would differ. The caller must call Close.
func Dial(ctx context.Context, local Pool, token cluster.Token, addrs []string, job FleetJob) (*Fleet, error) {
	f := newFleet(local, token, job)
	if err := f.dial(ctx, addrs); err != nil {
		return nil, err
	}
	return f, nil
}

// newFleet returns a fleet without workers.
func newFleet(local Pool, token cluster.Token, job FleetJob) *Fleet {
	f := &Fleet{local: local, here: len(local.Speeds()), node: cluster.NewNode(token), job: job, run: rand.Text(),
		speeds: slices.Clone(local.Speeds()), changed: make(chan struct{})}
	f.end, f.close = context.WithCancel(context.Background())
	if f.here > 0 {
		f.class = local.Class()
	}
	return f
}

// dial adds the workers at addrs, or closes the fleet on an error. If there are other devices, the job runs without workers that do
// not answer. They cannot join later, because the number of their devices is unknown.
func (f *Fleet) dial(ctx context.Context, addrs []string) (err error) {
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	var silent []error
	for _, addr := range addrs {
		h := &host{addr: addr, first: len(f.speeds)}
		reply, err := f.handshake(ctx, h)
		if err != nil && ctx.Err() == nil && fault.ClassOf(err) == fault.ClassRetry && !errors.Is(err, cluster.ErrToken) {
			silent = append(silent, err)
			continue
		}
		if err != nil {
			return err
		}
		h.speeds, h.memory, h.layout, h.survey = reply.Speeds, reply.Memory, reply.Layout, reply.Survey
		h.labels = reply.Labels
		f.hosts, f.class = append(f.hosts, h), reply.Class
		f.speeds = append(f.speeds, h.speeds...)
	}
	if len(f.speeds) == 0 && len(silent) > 0 {
		return silent[0]
	}
	for _, err := range silent {
		slog.Warn("this run does without a worker, the next one asks it again", "why", err)
	}
	f.busy = make([]bool, len(f.speeds))
	if changed := f.local.Changed(); changed != nil {
		f.asking.Go(func() { f.follow(changed) })
	}
	return nil
}

// follow notifies waiters of changes in the local pool, until the fleet is closed.
func (f *Fleet) follow(changed <-chan struct{}) {
	for {
		select {
		case <-changed:
			changed = f.local.Changed() // before waiters look, so that no change is missed
			f.mu.Lock()
			f.notifyWaiters()
			f.mu.Unlock()
		case <-f.end.Done():
			return
		}
	}
}

// handshake asks a worker for its devices and checks that it would compute the same bytes as this process.
func (f *Fleet) handshake(ctx context.Context, h *host) (Reply, error) {
	f.mu.Lock()
	rows := f.rows
	f.mu.Unlock()
	reply, _, err := f.call(ctx, h, Request{Rows: rows}, nil, nil)
	switch {
	case err != nil && reply.Error != "":
		return reply, fmt.Errorf("worker %s: %w", h.addr, err)
	case err != nil: // the error names the worker
		return reply, err
	case f.class != "" && reply.Class != f.class:
		return reply, fmt.Errorf("worker %s computes in class %s, %s in %s: the bytes would differ; take processors of "+
			"one kind%s", h.addr, reply.Class, f.first(), f.class, f.without())
	case len(reply.Speeds) == 0:
		return reply, fmt.Errorf("worker %s has no devices", h.addr)
	}
	if err := reply.validate(); err != nil {
		return reply, fmt.Errorf("worker %s: %w", h.addr, err)
	}
	for stage, digest := range f.job.Weights {
		if reply.Weights[stage] != digest {
			return reply, fmt.Errorf("worker %s has other weights for %s, or another version of a program for it: "+
				"give it the same model directory and programs", h.addr, stage)
		}
	}
	return reply, nil
}

// first names the process that decides the job's numeric class.
func (f *Fleet) first() string {
	if f.here > 0 {
		return "this process"
	}
	return "worker " + f.hosts[0].addr
}

// without returns the advice for a worker of another class than this process.
func (f *Fleet) without() string {
	if f.here == 0 {
		return ""
	}
	return ", or set resources.workers to 0: this process then computes nothing itself"
}

// Exchanges returns statistics of exchanges in sets of several hosts, as seen by the devices of this process.
func (f *Fleet) Exchanges() cluster.Links { return f.node.Links() }

// Expect sends the rows of the job to the workers, so that they place their weights for them. A worker that does
// not answer counts as lost.
func (f *Fleet) Expect(ctx context.Context, rows json.RawMessage) {
	f.mu.Lock()
	f.rows = rows
	hosts := slices.Clone(f.hosts)
	f.mu.Unlock()
	for _, h := range hosts {
		reply, err := f.handshake(ctx, h)
		if err != nil {
			slog.Warn("a worker does not take the rows of the job", "address", h.addr, "error", err)
			continue
		}
		f.mu.Lock()
		h.memory = reply.Memory
		f.mu.Unlock()
	}
}

// Close stops the fleet's goroutines and tells the workers that the job has ended.
func (f *Fleet) Close() {
	f.close()
	f.asking.Wait()
	f.notifyEnd()
	f.node.Close()
}

// endTimeout is how long notifying the workers of the job's end may take.
const endTimeout = 2 * time.Second

// notifyEnd tells each worker that the job has ended. A worker that misses the message frees its memory when
// another job needs it.
func (f *Fleet) notifyEnd() {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	var telling sync.WaitGroup
	for _, h := range f.hosts {
		f.mu.Lock()
		lost := h.lost
		f.mu.Unlock()
		if !lost {
			telling.Go(func() { _, _, _ = f.call(ctx, h, Request{End: true}, nil, nil) })
		}
	}
	telling.Wait()
}

// notifyStopping tells a worker that this run will end soon.
func (f *Fleet) notifyStopping(h *host) {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if _, _, err := f.call(ctx, h, Request{Stopping: true}, nil, nil); err != nil {
		slog.Warn("a worker does not hear that the job is told to stop: steps since the last time are not saved", "address", h.addr,
			"why", err)
	}
}

// smaller returns the smaller target and the smaller limit of a and b.
func smaller(a, b cost.Memory) cost.Memory {
	return cost.Memory{Target: min(a.Target, b.Target), Limit: min(a.Limit, b.Limit)}
}

// Size returns how many devices there are, lost ones included.
func (f *Fleet) Size() int { return len(f.speeds) }

// Speeds returns the relative speed of every device; 0: it is drained or its worker is lost.
func (f *Fleet) Speeds() []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Clone(f.speeds)
	copy(out, f.local.Speeds()) // now 0 for drained devices
	for _, h := range f.hosts {
		if h.lost {
			clear(out[h.first:][:len(h.speeds)])
		}
	}
	return out
}

// Changed returns a channel that is closed when devices become free, return or are lost.
func (f *Fleet) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// Memory returns the memory that a batch may use on any device.
func (f *Fleet) Memory() (memory cost.Memory) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.here > 0 {
		memory = f.local.Memory()
	}
	for i, h := range f.hosts {
		if f.here == 0 && i == 0 {
			memory = h.memory
		}
		memory = smaller(memory, h.memory)
	}
	if several := len(f.hosts) > 1 || len(f.hosts) > 0 && f.here > 0; several && f.linked() && !f.job.Given {
		memory.Limit = max(0, memory.Limit-layout.Linked(len(f.speeds)))
		memory.Target = min(memory.Target, memory.Limit/2)
	}
	return memory
}

// linked reports whether exchanges between hosts may use direct links of devices. CPU devices have none.
func (f *Fleet) linked() bool { return f.job.Link && !strings.HasPrefix(f.class, "cpu/") }

// Class returns the numeric class of the results. It is the class of the first worker if this process has no devices.
func (f *Fleet) Class() string { return f.class }

// call sends a request to a worker and waits for its answer. A worker that does not answer counts as lost. If
// the worker saves steps before its answer, call gives them to saved.
func (f *Fleet) call(ctx context.Context, h *host, r Request, batch []byte, saved func([]byte) error) (
	Reply, []byte, error) {
	var reply Reply
	r.Job, r.Run = f.job.Start, f.run
	conn, err := f.node.Call(ctx, h.addr)
	if err != nil {
		return reply, nil, f.lose(ctx, h, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() {
		if r.SaveEvery == nil || conn.CloseWrite() != nil {
			conn.Close()
			return
		}
		time.AfterFunc(SaveTime, func() { conn.Close() })
	})
	defer stop()
	if err := conn.Send(r, batch); err != nil {
		return reply, nil, f.lose(ctx, h, err)
	}
	for {
		body, err := conn.Receive(&reply)
		if err == nil && reply.Saved && saved != nil {
			err = saved(body)
		}
		if err != nil {
			return reply, nil, f.lose(ctx, h, err)
		}
		switch err := reply.err(); {
		case reply.Saved:
		case err != nil && ctx.Err() != nil: // the worker was told to cancel
			return reply, nil, context.Cause(ctx)
		default:
			return reply, body, err
		}
		reply = Reply{}
	}
}
