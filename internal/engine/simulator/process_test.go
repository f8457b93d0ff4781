package simulator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"latentbeam/internal/devices"
	"latentbeam/internal/engine"
	"latentbeam/internal/engine/keys"
	"latentbeam/internal/storage/ledger"
	"latentbeam/internal/storage/store"
	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/schemas/fault"
	"latentbeam/stages"
	"latentbeam/stages/cost"
)

// steps is how many a row is sampled in.
const steps = 6

// process is one that computes: an engine with its own view of the ledger.
type process struct {
	*engine.Engine
	*job
	name   string
	disk   *disk
	store  store.Store
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	begun   map[schemas.Key]bool // denoised in this process, and not encoded yet
	running sync.WaitGroup
}

// start starts a process on so many devices.
func (j *job) start(name string, devices int) (*process, error) {
	p := &process{job: j, name: name, disk: &disk{j.world, name, make(chan struct{})}, begun: map[schemas.Key]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	var err error
	if p.store, err = p.disk.open(); err != nil {
		return nil, err
	}
	l, err := ledger.Open(p.ctx, p.store)
	if err != nil {
		p.store.Close()
		return nil, err
	}
	steps := p.stages()
	p.Engine = engine.New(steps, newPool(devices))
	p.Store, p.Ledger, p.Recovery.Retries = p.store, l, 12
	p.Schedule.MaxBatch = j.batch
	p.Keep = map[stages.Kind]bool{stages.KindVideo: true, stages.KindLatents: true}
	p.Rules = keys.Rules{Input: stages.KindPrompt, Steps: steps, Class: "sim"}
	if err := p.Rules.Seal(); err != nil {
		return nil, err
	}
	if j.every >= 0 {
		p.Steps.SaveEvery(j.every)
	}
	return p, nil
}

// close gives back what a process holds that has ended.
func (p *process) close() {
	p.Ledger.Close()
	p.store.Close()
}

// die ends a process as kill -9 does: of what is on its way some happens.
func (p *process) die() {
	close(p.disk.dead)
	p.cancel()
}

// bundle takes rows from their keys to the publisher, as a fused bundle of a runner does.
func (p *process) bundle(ctx context.Context, rows []schemas.PromptRow) error {
	publisher := p.Publisher(ctx)
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	emit := func(b *stages.Batch) { note(publisher.Add(b)) }
	var ends []func() error
	for i := range slices.Backward(p.Schedule.Steps) {
		s, next := p.Station(ctx, i), emit
		ends = append(ends, func() error { return s.Close(next) })
		emit = func(b *stages.Batch) {
			if first == nil {
				note(s.Submit(b, next))
			}
		}
	}
	buckets := p.Buckets()
	for _, row := range rows {
		if first != nil || ctx.Err() != nil {
			break
		}
		e := &stages.Element{Row: row}
		admitted, err := p.Admit(e)
		if note(err); admitted {
			buckets.Add(e, emit)
		}
	}
	buckets.Close(emit)
	for _, end := range slices.Backward(ends) {
		if first != nil { // a runner gives up the bundle as it is
			return first
		}
		note(end())
	}
	if first == nil {
		note(publisher.Close())
	}
	return first
}

// stages are text, denoiser, decoder and encoder, each a pure function of the row.
func (p *process) stages() []stages.Step {
	of := func(name string, in, out stages.Kind, run func(ctx context.Context, e *stages.Element) error,
		params ...stages.Param) stages.Step {
		s := &plain{process: p, name: name, run: run}
		return stages.Step{Name: name, Gives: out, Stage: s,
			Spec: stages.Spec{Name: name, Version: 1, In: in, Out: out, Params: params}}
	}
	denoise := of("denoise", stages.KindText, stages.KindLatents, nil, stages.ParamSteps)
	denoise.Stage = &denoiser{plain: plain{process: p, name: "denoise"}}
	return []stages.Step{
		of("text", stages.KindPrompt, stages.KindText, func(_ context.Context, e *stages.Element) error {
			e.Text = &stages.Text{Embedding: &stages.Array{Shape: []int{1, 1}, Data: []float32{float32(*e.Row.Seed)}}}
			return nil
		}, stages.ParamPrompt, stages.ParamSeed),
		denoise,
		of("decode", stages.KindLatents, stages.KindFrames, func(_ context.Context, e *stages.Element) error {
			e.Frames = &schemas.Clip{Frames: [][]byte{kernels.F32.Bytes(e.Latents.Data)}}
			return nil
		}),
		of("encode", stages.KindFrames, stages.KindVideo, func(_ context.Context, e *stages.Element) error {
			e.Video = &schemas.Encoded{Data: e.Frames.Frames[0], Ext: ".mp4", Codec: "sim"}
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.begun, e.Key)
			return nil
		}),
	}
}

// plain is a stage that takes elements one by one.
type plain struct {
	*process
	name string
	run  func(ctx context.Context, e *stages.Element) error
}

func (s *plain) Digest() string                                  { return "" }
func (s *plain) Check(*schemas.PromptRow) error                  { return nil }
func (s *plain) Capabilities() stages.Capabilities               { return stages.Capabilities{} }
func (s *plain) Need(_ *schemas.PromptRow, n int) (int64, error) { return int64(n), nil }

func (s *plain) Run(ctx context.Context, _ kernels.Backend, batch []*stages.Element) error {
	if err := s.work(ctx, time.Second, batch); err != nil {
		return err
	}
	for _, e := range batch {
		if err := s.run(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// work takes time on a device, which may fail.
func (s *plain) work(ctx context.Context, d time.Duration, batch []*stages.Element) error {
	what := s.process.name + " " + s.name
	drawn := s.dice("device", what)
	if drawn < s.trouble.get()/20 {
		d += 10 * time.Minute // it hangs for a while
	}
	select {
	case <-time.After(d + time.Duration(1e8*s.dice("work", what))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, e := range batch {
		if e.Row.Prompt == poison && s.name == "denoise" {
			panic("poison")
		}
	}
	switch {
	case drawn < s.trouble.get()/4:
		return fault.Retry(errors.New("the device is lost"))
	case drawn < s.trouble.get()/2 && len(batch) > 1:
		return fault.OutOfMemory(errors.New("no memory"))
	case drawn < s.trouble.get()*3/4:
		return fault.Retry(errors.New("an exchange took too long"))
	}
	return nil
}

// poison is a prompt that no process survives computing.
const poison = "poison"

// denoiser samples, keeps its steps and goes on from them.
type denoiser struct{ plain }

func (s *denoiser) Capabilities() stages.Capabilities {
	return stages.Capabilities{Spread: &stages.Spread{Width: func(*schemas.PromptRow) int { return 0 }, Run: s.runSet}}
}

func (s *denoiser) Run(ctx context.Context, dev kernels.Backend, batch []*stages.Element) error {
	return s.runSet(ctx, stages.Alone(dev), batch)
}

func (s *denoiser) runSet(ctx context.Context, set *stages.Set, batch []*stages.Element) error {
	s.noteBegun(batch)
	values := make([]float32, len(batch))
	done := make([]int, len(batch))
	for i, e := range batch {
		values[i] = e.Text.Embedding.Data[0]
		if b := e.Begun; b != nil {
			values[i], done[i] = b.Latents.Data[0], b.Done
			s.noteResumed(e.Key, b.Done)
		}
	}
	kept := time.Now()
	for step := range steps {
		if slices.Min(done) > step {
			continue
		}
		if err := s.work(ctx, 10*time.Second/time.Duration(set.Ranks()), batch); err != nil {
			return err
		}
		var rows []stages.Saved
		for i, e := range batch {
			if done[i] > step {
				continue
			}
			values[i], done[i] = next(values[i], step), step+1
			if step+1 < steps {
				rows = append(rows, stages.Saved{Key: e.Key,
					Steps: stages.Steps{Done: step + 1, Sampler: "sim", Latents: latent(values[i])}})
			}
		}
		if v := set.Saving; v != nil && len(rows) > 0 && time.Since(kept) >= v.Every {
			v.Save(ctx, rows)
			kept = time.Now()
		}
	}
	for i, e := range batch {
		e.Latents, e.LatentScale = latent(values[i]), 1
	}
	if e := batch[0]; s.Schedule.Pool.Size() > 1 && s.first("nan", e.Key) && s.roll("nan", e.Key) < s.trouble.get()/4 { // twice would be the row's own
		e.Latents.Data[0] = float32(math.NaN())
	}
	return nil
}

// noteBegun notes rows that begin to be sampled, and how many there are that are not encoded.
func (s *denoiser) noteBegun(batch []*stages.Element) {
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	for _, e := range batch {
		if s.settled[e.Key] {
			s.wrong("%s samples row %s, which an earlier life has done", s.process.name, e.Row.ID)
		}
		if e.Row.Prompt != poison { // which is never encoded
			s.begun[e.Key] = true
		}
	}
	// Where the bucket does not answer, batches that are not published are not waited for longer than a few seconds.
	if most := s.Schedule.Pool.Size() * max(s.batch, len(batch)); len(s.begun) > most && s.quiet {
		s.wrong("%s has begun to sample %d rows and encoded none of them, the most is %d", s.process.name, len(s.begun), most)
	}
}

// next is a sampling step.
func next(v float32, step int) float32 { return v*0.5 + float32(step) + 1 }

func latent(v float32) *stages.Array {
	return &stages.Array{Shape: []int{1, 1, 1, 1}, Data: []float32{v}}
}

// sampled is what a row comes to.
func sampled(seed int64) float32 {
	v := float32(seed)
	for step := range steps {
		v = next(v, step)
	}
	return v
}

// pool lends devices that compute nothing.
type pool struct {
	slots chan bool
}

func newPool(n int) *pool { return &pool{make(chan bool, n)} }

func (p *pool) LeaseSet(ctx context.Context, n int) (*stages.Set, func(bool), error) {
	for i := range n {
		select {
		case p.slots <- true:
		case <-ctx.Done():
			for range i {
				<-p.slots
			}
			return nil, nil, context.Cause(ctx)
		}
	}
	set := &stages.Set{Devices: slices.Repeat([]kernels.Backend{idle{}}, n), Speeds: slices.Repeat([]float64{1}, n)}
	return set, func(bool) {
		for range n {
			<-p.slots
		}
	}, nil
}

func (p *pool) LeaseThese(ctx context.Context, devices []int) (*stages.Set, func(bool), error) {
	return p.LeaseSet(ctx, len(devices))
}

func (p *pool) Size() int                { return cap(p.slots) }
func (p *pool) Speeds() []float64        { return slices.Repeat([]float64{1}, p.Size()) }
func (p *pool) Changed() <-chan struct{} { return nil }
func (p *pool) Memory() cost.Memory      { return cost.Memory{Target: 1000, Limit: 1000} }
func (p *pool) Class() string            { return "sim" }

// Capabilities tells the devices apart, so that a result that is not finite is looked at on another one.
func (p *pool) Capabilities() devices.PoolCapabilities {
	return devices.PoolCapabilities{Hardware: &devices.Hardware{Label: func(d int) string { return fmt.Sprint(d) },
		Note: func(int, string) {}, Drain: func(int, string) bool { return false }}}
}

type idle struct{ kernels.Backend }

func (idle) Capabilities() kernels.Capabilities { return kernels.Capabilities{} }

// table is the input of a job, as an engine reads it.
type table []schemas.PromptRow

func (t table) Rows(context.Context, bool) iter.Seq2[*stages.Element, error] {
	return func(yield func(*stages.Element, error) bool) {
		for _, row := range t {
			if !yield(&stages.Element{Row: row}, nil) {
				return
			}
		}
	}
}

var _ engine.RowSource = table(nil)

func (p *process) String() string { return fmt.Sprint("process ", p.name) }
