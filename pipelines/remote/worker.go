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

// maxJobs is the maximal number of jobs that a worker has open. Beyond it, the worker closes the job that was opened first. Jobs
// report their end, so this limit matters only for jobs that were killed.
const maxJobs = 4

// Worker computes batches for jobs of other processes on the devices of this process.
type Worker struct {
	Node    *cluster.Node
	Devices devices.Pool
	Specs   []stages.Spec

	mu      sync.Mutex
	devices *host.Devices
	jobs    map[string]*workerJob // by the JSON of their start
	order   []string              // keys of jobs, oldest first
}

// workerJob holds the stages of a job, opened from this host's disk.
type workerJob struct {
	mu     sync.Mutex
	opened bool
	rows   string // JSON of the expected rows for which the weights are arranged
	err    error

	// Protected by the worker's lock:
	host     *host.Stages          // nil until the stages are open
	runs     map[string]*workerRun // runs that use the job and have not ended
	requests int                   // number of requests in progress
	removed  bool                  // removed from the worker; closed after the last request
}

// workerRun is a run of a job.
type workerRun struct {
	stopping context.Context // canceled when the run should save its steps and end
	stop     context.CancelFunc
}

// Serve answers requests until ctx is canceled. Then it waits until the requests in progress have ended.
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

// serve answers the single request of a connection. If the job closes the connection, serve cancels the computation.
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
	if r.SaveEvery != nil && stop() { // leave time to send the newest steps
		stop = context.AfterFunc(ctx, func() { time.AfterFunc(devices.SaveTime, func() { conn.Close() }) })
	}
	go func() {
		conn.Read(make([]byte, 1)) // returns when either side closes the connection
		cancel()
	}()
	beat := conn.Beat()
	defer beat()
	reply, body := w.answer(ctx, conn, r, batch)
	beat()
	if ctx.Err() == nil {
		stop()
		_ = conn.Send(reply, body) // an error means that the job has gone and needs no answer
	}
}

// answer executes a request and returns the reply with its body. It returns a panic as an error of the row.
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
	job, run, release := w.acquire(r)
	defer release()
	j, err := w.open(ctx, job, r.Job, r.Rows)
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

// offer returns the devices and the digests of weights of this process.
func (w *Worker) offer(steps []stages.Step) devices.Reply {
	reply := devices.Reply{Speeds: w.Devices.Speeds(), Memory: w.Devices.Memory(), Class: w.Devices.Class(),
		Weights: map[string]string{}}
	reply.Describe(w.Devices)
	for _, s := range steps {
		reply.Weights[s.Name] = s.Digest()
	}
	return reply
}

// open opens the stages of a job, once, and arranges their weights for the expected rows.
func (w *Worker) open(ctx context.Context, j *workerJob, job, rows json.RawMessage) (*host.Stages, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.opened {
		j.err = w.openJob(ctx, j, job)
		j.opened = ctx.Err() == nil // if the job closed the connection, the next request tries again
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

// acquire returns the job and the run of a request. The job stays open until release is called. If there are more than maxJobs
// jobs, acquire removes the oldest.
func (w *Worker) acquire(r devices.Request) (j *workerJob, run *workerRun, release func()) {
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
	j.requests++
	return j, run, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		j.requests--
		w.closeUnused(j)
	}
}

// stopRun tells a run to save its steps and end.
func (w *Worker) stopRun(r devices.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[string(r.Job)]; j != nil && j.runs[r.Run] != nil {
		j.runs[r.Run].stop()
	}
}

// finishRun records the end of a run. After the last run of a job, it removes the job.
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

// remove removes a job from the worker. The caller holds w.mu.
func (w *Worker) remove(start string) {
	j := w.jobs[start]
	delete(w.jobs, start)
	w.order = slices.DeleteFunc(w.order, func(s string) bool { return s == start })
	j.removed = true
	w.closeUnused(j)
}

// closeUnused closes a removed job that has no requests in progress, and returns its memory to the system. The garbage collector
// frees packed weights and weights on devices, so closeUnused starts a collection. The caller holds w.mu.
func (w *Worker) closeUnused(j *workerJob) {
	if !j.removed || j.requests > 0 || j.host == nil {
		return
	}
	w.devices.Forget(j.host)
	j.host.Close()
	j.host = nil
	go debug.FreeOSMemory()
}

// close closes all jobs.
func (w *Worker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		if j.host != nil {
			j.host.Close()
		}
	}
}

// openJob opens the stages and loads their weights, so that no set waits for them later.
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
	w.devices.Forget(j.host) // stages of an earlier try that failed
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

// run runs a stage on this worker's ranks of a set. Only rank 0 returns the batch. When the run or this worker stops, or the job
// closes the connection, run saves the steps at once.
func (w *Worker) run(ctx context.Context, job *workerRun, conn *cluster.Conn, s stages.Step, r devices.Request,
	elements []*stages.Element) ([]byte, error) {
	if len(r.Ranks) < 1 || len(r.Ranks) != len(r.Devices) {
		return nil, fault.Retry(fmt.Errorf("%d ranks are asked for on %d devices", len(r.Ranks), len(r.Devices)))
	}
	set, release, err := w.Devices.LeaseThese(ctx, r.Devices)
	if err != nil {
		return nil, fault.Retry(err)
	}
	well := false // stays false after a panic
	defer func() { release(well) }()
	set.Patience = r.Patience
	if r.SaveEvery != nil {
		stopping, stop := context.WithCancel(job.stopping)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		set.Saving = &stages.Saving{Every: *r.SaveEvery, Stopping: stopping,
			Save: func(_ context.Context, rows []stages.Saved) { sendSaved(conn, rows) }}
	}
	if set.Speeds = r.Speeds; len(r.Speeds) > 1 {
		defer w.Node.CloseGroup(r.Table) // other ranks may wait for a rank that failed before it joined
		set.Connect = func(ctx context.Context) ([]kernels.Transport, error) {
			ctx, cancel := context.WithTimeout(ctx, devices.JoinTime)
			defer cancel()
			return w.Node.Join(ctx, r.Table, r.Ranks, set.Devices)
		}
	}
	ctx, stop := set.WithHealth(ctx)
	defer stop()
	err = engine.RunOn(ctx, s.Stage, set, elements)
	if why := set.HealthError(); why != nil { // even if the batch succeeded
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

// sendSaved sends the saved steps of rows to the job, which stores them. It ignores errors: then the job has gone.
func sendSaved(conn *cluster.Conn, rows []stages.Saved) {
	if body, err := coder.EncodeSaved(rows); err == nil {
		_ = conn.Send(devices.Reply{Saved: true}, body)
	}
}
