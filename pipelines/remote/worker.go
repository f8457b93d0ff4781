package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/coder"
	"latentbeam/internal/engine/host"
	"latentbeam/pipelines/jobfile"

	"latentbeam/internal/cluster"
	"latentbeam/kernels"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// maxJobs bounds the jobs whose models a worker keeps open; the one that was opened first goes first. Jobs say when they
// end: this is for those that were killed.
const maxJobs = 4

// Worker lends the devices of this process to the jobs of others.
type Worker struct {
	Node    *cluster.Node
	Devices devices.Pool
	Specs   []stages.Spec

	mu      sync.Mutex
	devices *host.Devices
	jobs    map[string]*workerJob // by how they were started
	order   []string
}

// workerJob is the stages of a job, opened from this host's disk.
type workerJob struct {
	mu     sync.Mutex
	opened bool
	rows   string // that the weights are arranged for, as it was told
	err    error

	// Under the worker's lock:
	host  *host.Stages          // nil until they could be opened
	runs  map[string]*workerRun // that have asked for it and have not ended
	using int                   // requests under way
	gone  bool                  // it is forgotten, and closed with the last of these requests
}

// workerRun is a run of a job.
type workerRun struct {
	stopping context.Context // canceled when the run is to end soon
	stop     context.CancelFunc
}

// Serve answers requests until ctx ends, and then waits for those that are under way to stop.
func (w *Worker) Serve(ctx context.Context) error {
	var working sync.WaitGroup
	defer w.close()
	defer working.Wait()
	for {
		conn, err := w.Node.Accept(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		working.Go(func() { w.serve(ctx, conn) })
	}
}

// serve answers the one request of a connection. A job that hangs up meanwhile wants no answer.
func (w *Worker) serve(ctx context.Context, conn *cluster.Conn) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() { stop() }()
	var r devices.Request
	batch, err := conn.Receive(&r)
	if err != nil {
		return
	}
	if r.SaveEvery != nil && stop() { // the newest steps are sent first
		stop = context.AfterFunc(ctx, func() { time.AfterFunc(devices.SaveTime, func() { conn.Close() }) })
	}
	go func() {
		conn.Read(make([]byte, 1)) // returns when the job hangs up, or with the connection
		cancel()
	}()
	beat := conn.Beat()
	defer beat()
	reply, body := w.answer(ctx, conn, r, batch)
	beat()
	if ctx.Err() == nil {
		stop()
		_ = conn.Send(reply, body) // a job that is gone by now has nothing to gain from it
	}
}

func (w *Worker) answer(ctx context.Context, conn *cluster.Conn, r devices.Request, batch []byte) (
	reply devices.Reply, body []byte) {
	defer func() {
		if v := recover(); v != nil {
			reply, body = devices.Failed(fault.Row(fmt.Errorf("panic: %v", v))), nil
		}
	}()
	switch {
	case r.End:
		w.finishRun(r)
		return devices.Reply{}, nil
	case r.Stopping:
		w.stopRun(r)
		return devices.Reply{}, nil
	}
	kept, run, done := w.use(r)
	defer done()
	j, err := w.open(ctx, kept, r.Job, r.Rows)
	if err != nil {
		return devices.Failed(fault.Usage(err)), nil
	}
	if r.Stage == "" {
		return w.offer(j.Steps), nil
	}
	i := slices.IndexFunc(j.Steps, func(s stages.Step) bool { return s.Name == r.Stage })
	if i < 0 {
		return devices.Failed(fault.Usage(fmt.Errorf("the job has no stage %s", r.Stage))), nil
	}
	decoded, err := coder.DecodeBatch(batch)
	if err != nil {
		return devices.Failed(err), nil
	}
	elements := decoded.Elements
	freed := len(elements) > 0 && r.Stay != nil && j.Free(i, elements[0].Row, *r.Stay)
	if body, err = w.run(ctx, run, conn, j.Steps[i], r, elements); err != nil {
		reply = devices.Failed(err)
	}
	if freed {
		reply.Memory = w.Devices.Memory()
	}
	return reply, body
}

// offer says what this process has.
func (w *Worker) offer(steps []stages.Step) devices.Reply {
	reply := devices.Reply{Speeds: w.Devices.Speeds(), Memory: w.Devices.Memory(), Class: w.Devices.Class(),
		Weights: map[string]string{}}
	reply.Describe(w.Devices)
	for _, s := range steps {
		reply.Weights[s.Name] = s.Digest()
	}
	return reply
}

// open opens the stages of a job, once, and arranges their weights for the rows that it is going to compute.
func (w *Worker) open(ctx context.Context, j *workerJob, job, rows json.RawMessage) (*host.Stages, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.opened {
		j.err = w.openJob(ctx, j, job)
		j.opened = ctx.Err() == nil // a job that hung up says nothing about the next try
	}
	if j.err == nil && len(rows) > 0 && string(rows) != j.rows {
		var expected host.ExpectedRows
		if err := json.Unmarshal(rows, &expected); err != nil {
			return nil, err
		}
		j.rows = string(rows)
		if err := j.host.Arrange(expected.Rows, expected.Elements); err != nil {
			return nil, err
		}
		if err := j.host.Reload(ctx); err != nil {
			return nil, err
		}
	}
	return j.host, j.err
}

// use returns the job of a request, which is not closed before done. Beyond maxJobs the first is forgotten.
func (w *Worker) use(r devices.Request) (j *workerJob, run *workerRun, done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs == nil {
		w.jobs, w.devices = map[string]*workerJob{}, host.NewDevices(w.Devices)
	}
	start := string(r.Job)
	if j = w.jobs[start]; j == nil {
		j = &workerJob{runs: map[string]*workerRun{}}
		w.jobs[start] = j
		if w.order = append(w.order, start); len(w.order) > maxJobs {
			w.remove(w.order[0])
		}
	}
	if run = j.runs[r.Run]; run == nil {
		run = &workerRun{}
		run.stopping, run.stop = context.WithCancel(context.Background())
		j.runs[r.Run] = run
	}
	j.using++
	return j, run, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		j.using--
		w.release(j)
	}
}

// stopRun notes that a run is to end soon.
func (w *Worker) stopRun(r devices.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[string(r.Job)]; j != nil && j.runs[r.Run] != nil {
		j.runs[r.Run].stop()
	}
}

// finishRun notes that a run of a job is over. The job is forgotten with the last of them.
func (w *Worker) finishRun(r devices.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[string(r.Job)]; j != nil {
		if run := j.runs[r.Run]; run != nil {
			run.stop()
		}
		if delete(j.runs, r.Run); len(j.runs) == 0 {
			w.remove(string(r.Job))
		}
	}
}

// remove takes a job off the list. The lock is held.
func (w *Worker) remove(start string) {
	j := w.jobs[start]
	delete(w.jobs, start)
	w.order = slices.DeleteFunc(w.order, func(s string) bool { return s == start })
	j.gone = true
	w.release(j)
}

// release closes a job that is forgotten and that nobody uses, and returns its memory to the system: weights that are
// packed or lie on devices go when the collector finds that nobody has them. The lock is held.
func (w *Worker) release(j *workerJob) {
	if !j.gone || j.using > 0 || j.host == nil {
		return
	}
	w.devices.Forget(j.host)
	j.host.Close()
	j.host = nil
	go debug.FreeOSMemory()
}

// close closes the jobs.
func (w *Worker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		if j.host != nil {
			j.host.Close()
		}
	}
}

// openJob opens the stages and brings their weights to a device, so that no set waits for them later.
func (w *Worker) openJob(ctx context.Context, j *workerJob, job json.RawMessage) error {
	var start jobfile.Start
	if err := json.Unmarshal(job, &start); err != nil {
		return err
	}
	cfg, err := start.Config()
	if err != nil {
		return err
	}
	h, err := host.Open(cfg, w.Specs)
	if err == nil {
		err = h.Ready()
	}
	if err != nil {
		return err
	}
	h.SetDevices(w.devices)
	w.mu.Lock()
	w.devices.Forget(j.host) // of a try that was given up
	old := j.host
	j.host = h
	w.mu.Unlock()
	if old != nil {
		old.Close()
	}
	if err := h.ArrangeDefaults(); err != nil {
		return err
	}
	return h.Load(ctx)
}

// run runs a stage on this worker's ranks of a set. The batch goes back from rank 0. Steps are saved at once when the run is to end, or
// this worker, or when the job does not want the batch any more.
func (w *Worker) run(ctx context.Context, of *workerRun, conn *cluster.Conn, s stages.Step, r devices.Request,
	elements []*stages.Element) ([]byte, error) {
	if len(r.Ranks) < 1 || len(r.Ranks) != len(r.Devices) {
		return nil, fault.Retry(fmt.Errorf("%d ranks are asked for on %d devices", len(r.Ranks), len(r.Devices)))
	}
	set, release, err := w.Devices.LeaseThese(ctx, r.Devices)
	if err != nil {
		return nil, fault.Retry(err)
	}
	well := false // after a panic, too
	defer func() { release(well) }()
	set.Patience = r.Patience
	if r.SaveEvery != nil {
		stopping, stop := context.WithCancel(of.stopping)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		set.Saving = &stages.Saving{Every: *r.SaveEvery, Stopping: stopping,
			Save: func(_ context.Context, rows []stages.Saved) { sendSaved(conn, rows) }}
	}
	if set.Speeds = r.Speeds; len(r.Speeds) > 1 {
		defer w.Node.CloseGroup(r.Table) // ranks elsewhere may still wait for one that failed before it joined
		set.Connect = func(ctx context.Context) ([]kernels.Transport, error) {
			ctx, cancel := context.WithTimeout(ctx, devices.JoinTime)
			defer cancel()
			return w.Node.Join(ctx, r.Table, r.Ranks, set.Devices)
		}
	}
	ctx, stop := set.Under(ctx)
	defer stop()
	err = engine.RunOn(ctx, s.Stage, set, elements)
	if why := set.Ill(); why != nil { // whatever came of it
		err = why
	}
	if well = err == nil; !well || r.Ranks[0] != 0 {
		return nil, err
	}
	for _, e := range elements {
		e.Begun = nil
	}
	return coder.EncodeBatch(&stages.Batch{Elements: elements})
}

// sendSaved sends the steps of rows to the job, which keeps them. One that is gone has nothing to gain from it.
func sendSaved(conn *cluster.Conn, rows []stages.Saved) {
	if body, err := coder.EncodeSaved(rows); err == nil {
		_ = conn.Send(devices.Reply{Saved: true}, body)
	}
}
