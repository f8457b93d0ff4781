package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"latentbeam/internal/config"
	"latentbeam/internal/devices"
	"latentbeam/internal/engine"
	"latentbeam/internal/lend"
	"latentbeam/internal/plan/layout"
	"latentbeam/internal/transport"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
)

// maxJobs bounds the jobs whose models a worker keeps open; the one that was opened first goes first.
const maxJobs = 4

// Worker lends the devices of this process to the jobs of others.
type Worker struct {
	Node    *transport.Node
	Devices lend.Pool
	Specs   []stages.Spec

	mu    sync.Mutex
	jobs  map[string]*workerJob // by how they were started
	order []string
}

// workerJob is the stages of a job, opened from this host's disk.
type workerJob struct {
	mu     sync.Mutex
	opened bool
	cfg    *config.Config
	steps  []stages.Step
	rows   string // that the weights are arranged for, as it was told
	held   []layout.Held
	bytes  int64 // of the weights, as they lie in memory
	err    error
}

// Serve answers requests until ctx ends, and then waits for those that are under way to stop.
func (w *Worker) Serve(ctx context.Context) error {
	var working sync.WaitGroup
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
func (w *Worker) serve(ctx context.Context, conn *transport.Conn) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var r devices.Request
	batch, err := conn.Receive(&r)
	if err != nil {
		return
	}
	go func() {
		conn.Read(make([]byte, 1)) // returns when the job hangs up, or with the connection
		cancel()
	}()
	beat := conn.Beat()
	defer beat()
	reply, body := w.answer(ctx, r, batch)
	beat()
	if ctx.Err() == nil {
		stop()
		_ = conn.Send(reply, body) // a job that is gone by now has nothing to gain from it
	}
}

func (w *Worker) answer(ctx context.Context, r devices.Request, batch []byte) (reply devices.Reply, body []byte) {
	defer func() {
		if v := recover(); v != nil {
			reply, body = devices.Failed(fault.Row(fmt.Errorf("panic: %v", v))), nil
		}
	}()
	j, err := w.open(ctx, r.Job, r.Rows)
	if err != nil {
		return devices.Failed(fault.Usage(err)), nil
	}
	if r.Stage == "" {
		return w.offer(j.steps), nil
	}
	i := slices.IndexFunc(j.steps, func(s stages.Step) bool { return s.Name == r.Stage })
	if i < 0 {
		return devices.Failed(fault.Usage(fmt.Errorf("the job has no stage %s", r.Stage))), nil
	}
	decoded, err := engine.DecodeBatch(batch)
	if err != nil {
		return devices.Failed(err), nil
	}
	elements := decoded.Elements
	freed := len(elements) > 0 && r.Stay != nil && w.free(j, i, elements[0].Row, *r.Stay)
	if body, err = w.run(ctx, j.steps[i], r, elements); err != nil {
		reply = devices.Failed(err)
	}
	if freed {
		reply.Memory = w.Devices.Memory()
	}
	return reply, body
}

// free lets blocks of a step pass through memory which were to stay, and offers their room to batches; row is one of
// those that the step computes. It reports whether there is more room.
func (w *Worker) free(j *workerJob, step int, row schemas.PromptRow, stay int) bool {
	loading := j.steps[step].Capabilities().Loading
	if loading == nil || loading.Staying == nil {
		return false
	}
	j.mu.Lock() // one at a time
	defer j.mu.Unlock()
	if now, _ := loading.Staying(); stay >= now {
		return false
	}
	loading.Stream(stay)
	costs, err := costsOf(j.steps, row)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || j.bytes == 0 { // the weights had no room in any case
		return false
	}
	j.held[step] = layout.Passing(j.held[step], costs[step], stay)
	j.bytes = sizeOf(j.held)
	weighed(w.Devices, w.others(j)+j.bytes)
	return true
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
func (w *Worker) open(ctx context.Context, job, rows json.RawMessage) (*workerJob, error) {
	w.mu.Lock()
	if w.jobs == nil {
		w.jobs = map[string]*workerJob{}
	}
	j := w.jobs[string(job)]
	if j == nil {
		j = &workerJob{}
		w.jobs[string(job)] = j
		if w.order = append(w.order, string(job)); len(w.order) > maxJobs {
			delete(w.jobs, w.order[0])
			w.order = w.order[1:]
		}
	}
	w.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.opened {
		j.err = w.openJob(ctx, j, job)
		j.opened = ctx.Err() == nil // a job that hung up says nothing about the next try
	}
	if j.err == nil && len(rows) > 0 && string(rows) != j.rows {
		var expected expectedRows
		if err := json.Unmarshal(rows, &expected); err != nil {
			return nil, err
		}
		j.rows = string(rows)
		before := j.held
		if err := w.arrange(j, expected.Rows, expected.Elements); err != nil {
			return nil, err
		}
		if !slices.EqualFunc(before, j.held, layout.Held.Same) { // see Job.reload
			if err := w.load(ctx, j); err != nil {
				return nil, err
			}
		}
	}
	return j, j.err
}

// openJob opens the stages and brings their weights to a device, so that no set waits for them later.
func (w *Worker) openJob(ctx context.Context, j *workerJob, job json.RawMessage) error {
	var start Start
	if err := json.Unmarshal(job, &start); err != nil {
		return err
	}
	cfg, err := start.Config()
	if err != nil {
		return err
	}
	model, err := openModel(cfg)
	if err != nil {
		return err
	}
	if j.steps, err = openSteps(cfg, w.Specs, model); err != nil {
		return err
	}
	j.cfg = cfg
	defaults := withPublished(defaultsOf(cfg, model), j.steps)
	if err := w.arrange(j, []schemas.PromptRow{defaults}, 0); err != nil {
		return err
	}
	return w.load(ctx, j)
}

// load brings the weights of a job to a device.
func (w *Worker) load(ctx context.Context, j *workerJob) error {
	dev, release, err := lend.Lease(ctx, w.Devices)
	if err != nil {
		return err
	}
	err = loadSteps(j.cfg, j.steps, dev)
	release(err == nil)
	return err
}

// arrange decides how the weights of a job lie, beside those of the others that are open, and takes them off the memory
// that is offered.
func (w *Worker) arrange(j *workerJob, rows []schemas.PromptRow, elements int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	others := w.others(j)
	weighed(w.Devices, others)
	devices := known(w.Devices)
	for i := range devices {
		if !devices[i].Mapped { // of the others the offer knows already
			devices[i].Memory -= others
		}
	}
	held, over, err := arrange(j.cfg, j.steps, rows, elements, devices, nil)
	if err != nil {
		return err
	}
	j.held = held
	if j.bytes = 0; over == 0 {
		j.bytes = sizeOf(held)
	}
	weighed(w.Devices, others+j.bytes)
	return nil
}

// others is what the weights of other jobs take.
func (w *Worker) others(j *workerJob) (bytes int64) {
	for _, open := range w.jobs {
		if open != j {
			bytes += open.bytes
		}
	}
	return bytes
}

// run runs a stage on this worker's ranks of a set. The batch goes back from rank 0.
func (w *Worker) run(ctx context.Context, s stages.Step, r devices.Request,
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
	if set.Speeds = r.Speeds; len(r.Speeds) > 1 {
		defer w.Node.Over(r.Table) // ranks elsewhere may still wait for one that failed before it joined
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
	return engine.EncodeBatch(&stages.Batch{Elements: elements})
}
