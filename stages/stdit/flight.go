package stdit

import (
	"context"
	"errors"
	"iter"

	"latentbeam/internal/plan"
	"latentbeam/internal/plan/sequence"
	"latentbeam/kernels"
	"latentbeam/stages"
	"latentbeam/stages/nn"
	"latentbeam/stages/sampler"
)

// In a pipeline the elements of a batch go in groups, as many as there are stages. Each group has a sampler of its
// own on the first stage, so that its next step can begin as soon as its last one is back, while the other
// groups are on their way: with as many groups as stages no stage waits.

// runPipeline samples the batch on a grid of several stages.
func (j *job) runPipeline(ctx context.Context, set *stages.Set, grid plan.Grid) error {
	groups := j.groups(min(grid.Pipeline, len(j.batch)))
	plans := make([]*sequence.Plan, len(groups))
	for i, g := range groups {
		var err error
		if plans[i], err = g.plan(grid.Speeds(set.Speeds)); err != nil {
			return err
		}
	}
	return nn.OnGrid(ctx, set, grid, func(ctx context.Context, seat *nn.Seat) error {
		defer seat.Dev.Scope()()
		l := &line{seat: seat, steps: j.sampler.Steps(), slots: max(grid.Pipeline, len(groups))}
		defer l.stop()
		for i, g := range groups {
			f, err := g.flight(ctx, seat, plans[i])
			if err != nil {
				return err
			}
			l.flights = append(l.flights, f)
		}
		return l.run()
	})
}

// groups cuts the batch into n jobs.
func (j *job) groups(n int) (out []*job) {
	for i := range n {
		g, from, to := *j, i*len(j.batch)/n, (i+1)*len(j.batch)/n
		g.batch = j.batch[from:to]
		if j.masks != nil {
			g.masks = j.masks[from*j.size.T : to*j.size.T]
		}
		out = append(out, &g)
	}
	return out
}

// line is what goes through the stages on one rank.
type line struct {
	seat    *nn.Seat
	steps   int
	slots   int // of a step: one for each group, and empty ones where there are fewer groups than stages
	flights []*flight
}

// run lets all flights take all steps, and gives the elements their latents.
func (l *line) run() error {
	at := func(i int) *flight { return l.flights[i%l.slots] }
	belt := nn.Belt{
		Op: "blocks", Items: l.steps * l.slots,
		Empty: func(i int) bool { return i%l.slots >= len(l.flights) },
		Take:  func(i int) error { return at(i).take(l.seat) },
		On:    func(i int) []kernels.Tensor { return at(i).onward },
		Back:  func(i int) []kernels.Tensor { return at(i).tokens },
		Done:  func(i int) error { return at(i).done() },
	}
	if err := belt.Run(l.seat.Pipeline); err != nil {
		return err
	}
	for _, f := range l.flights {
		if err := f.land(l.seat); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the samplers that have not come to their end.
func (l *line) stop() {
	for _, f := range l.flights {
		if f.end != nil {
			f.end()
		}
	}
}

// flight is one group of a batch on its way through the stages, as one rank sees it.
type flight struct {
	*rank
	job    *job
	stream *stream
	state  kernels.Tensor   // (1 + B T'): the timestep, and 1 for each frame that is being denoised, 0 for given ones
	onward []kernels.Tensor // what goes on: the parts of the stream, and the state
	tokens []kernels.Tensor // what comes back: the output tokens (n, T', W, K) of every part

	// The sampler, on the first stage.
	ask    func() (request, bool) // the next evaluation
	end    func()
	length int // of its rows
	answer []float32
	z      []float32
	err    error
}

// request is what a sampler asks of the network.
type request struct {
	rows, timesteps []float32
	generated       []bool
}

// flight prepares a group on one rank.
func (j *job) flight(ctx context.Context, seat *nn.Seat, plan *sequence.Plan) (*flight, error) {
	r, err := j.rank(seat, plan)
	if err != nil {
		return nil, err
	}
	m, frames := r.model, r.prepared.times.Len
	f := &flight{rank: r, job: j, stream: &stream{p: r.prepared, dt: m.DType, split: r.split}}
	for i, p := range r.split.Parts() {
		x := r.dev.Alloc(m.DType, p.Rows.Len, frames, p.Patches.Len, m.HiddenSize) // (n, T', W, C)
		f.stream.parts = append(f.stream.parts, part{x, r.local(p.Rows), r.parts[i]})
		f.onward = append(f.onward, x)
		f.tokens = append(f.tokens, r.dev.Alloc(m.DType, p.Rows.Len, frames, p.Patches.Len,
			m.PatchSize.Size()*m.OutChannels()))
	}
	f.state = r.dev.Alloc(kernels.F32, 1+r.rows.Len*frames)
	f.onward = append(f.onward, f.state)
	if seat.Stage.Rank == 0 {
		f.begin(ctx)
	}
	return f, nil
}

// begin starts the sampler, which stands still whenever it has asked for an evaluation.
func (f *flight) begin(ctx context.Context) {
	var b sampler.Batch
	f.z, b = f.job.shares(f.rank)
	f.ask, f.end = iter.Pull(func(yield func(request) bool) {
		model := func(_ context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
			if !yield(request{rows, timesteps, generated}) {
				return nil, context.Canceled
			}
			return f.answer, nil
		}
		f.err = f.job.sampler.Sample(ctx, b, f.z, model, f.job.noiseOf(f.rank), nil)
	})
}

// take runs the blocks of this rank on the group.
func (f *flight) take(seat *nn.Seat) error {
	f.next()
	defer f.dev.Scope()()
	if seat.Stage.Rank == 0 {
		if err := f.launch(); err != nil {
			return err
		}
	}
	now, err := f.instant()
	if err != nil {
		return err
	}
	tokens, err := f.advance(f.stream, now, seat.Stage.Rank == seat.Stage.Ways-1)
	for i := range tokens {
		f.dev.Copy(f.tokens[i], tokens[i])
	}
	return err
}

// launch puts what the sampler asks for into the stream.
func (f *flight) launch() error {
	q, more := f.ask()
	if !more {
		return errors.Join(f.err, errors.New("the sampler has ended before its last step"))
	}
	f.length = len(q.rows)
	fresh := f.embed(q.rows[:len(q.rows)/f.branches])
	for i, p := range fresh.parts {
		f.dev.Copy(f.stream.parts[i].x, p.x)
	}
	now := f.conditions(q.timesteps, q.generated)
	values := make([]float32, f.state.Len())
	values[0] = now.timestep
	for i := range values[1:] {
		if now.generated == nil || now.generated[i] {
			values[1+i] = 1
		}
	}
	f.dev.Upload(f.state, values)
	return nil
}

// instant reads the state.
func (f *flight) instant() (instant, error) {
	values := make([]float32, f.state.Len())
	if err := f.dev.Download(values, f.state); err != nil {
		return instant{}, err
	}
	now := instant{timestep: values[0]}
	given := false
	generated := make([]bool, len(values)-1)
	for i, v := range values[1:] {
		generated[i] = v != 0
		given = given || !generated[i]
	}
	if given {
		now.generated = generated
	}
	return now, nil
}

// done answers the sampler.
func (f *flight) done() (err error) {
	defer f.dev.Scope()()
	f.answer, err = f.predictions(f.tokens, f.length)
	return err
}

// land lets the sampler take its last step and gives the elements their latents.
func (f *flight) land(seat *nn.Seat) error {
	if seat.Stage.Rank > 0 {
		return nil
	}
	if _, more := f.ask(); more {
		return errors.New("the sampler goes on after its last step")
	}
	if f.err != nil || !seat.First() {
		return f.err
	}
	return f.job.collect(f.rank, f.z, false)
}
