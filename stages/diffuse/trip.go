package diffuse

import (
	"context"
	"errors"
	"iter"

	"latentbeam/internal/plan"
	"latentbeam/kernels"
	"latentbeam/stages/nn"
	"latentbeam/stages/sampler"
	"latentbeam/stages/sequence"
)

// In a pipeline the elements of a batch go in groups, at least as many as there are stages. Each group is a trip: it has
// a sampler of its own on the first stage, so that its next step can begin as soon as its last one is back, while the
// other groups are on their way. With as many groups as stages no stage waits. Fewer send the branches of guidance
// apart, which meet at the end of the step.

// groups cuts the batch for a pipeline.
func (j *job) groups(g plan.Grid) (out []*job) {
	n := g.Groups(len(j.batch))
	for i := range n {
		some, from, to := *j, i*len(j.batch)/n, (i+1)*len(j.batch)/n
		some.batch = j.batch[from:to]
		if j.masks != nil {
			some.masks = j.masks[from*j.size.T : to*j.size.T]
		}
		out = append(out, &some)
	}
	return out
}

// fly samples jobs at once on one rank of a grid of several stages. The first rank gives the elements their latents, or
// every rank to its own.
func fly(ctx context.Context, seat *nn.Seat, speeds []float64, jobs []*job, everyone bool) error {
	defer seat.Dev.Scope()()
	l := &line{seat: seat}
	defer l.stop()
	elements := 0
	for _, j := range jobs {
		elements += len(j.batch)
	}
	for _, j := range jobs {
		rows := j.branches() // that go together
		if seat.Apart(elements) {
			rows = 1
		}
		if err := l.add(ctx, j, speeds, rows); err != nil {
			return err
		}
	}
	if err := l.run(); err != nil {
		return err
	}
	for _, t := range l.trips {
		if err := t.land(seat, everyone); err != nil {
			return err
		}
	}
	return nil
}

// line is what goes through the stages on one rank.
type line struct {
	seat    *nn.Seat
	trips   []*trip
	flights []*flight
}

// add prepares a trip whose branches go so many at a time.
func (l *line) add(ctx context.Context, j *job, speeds []float64, rows int) error {
	plan, err := j.plan(speeds, rows)
	if err != nil {
		return err
	}
	t := &trip{job: j}
	for branch := 0; branch < j.branches(); branch += rows {
		f, err := t.flight(l.seat, plan, branch, rows)
		if err != nil {
			return err
		}
		t.flights = append(t.flights, f)
	}
	if l.seat.Stage.First() {
		t.begin(ctx)
	}
	l.trips, l.flights = append(l.trips, t), append(l.flights, t.flights...)
	return nil
}

// run lets all flights take all steps. A step has a slot for each, and empty ones where they are so few that the first
// flight of a trip would come round before the last is back.
func (l *line) run() error {
	slots := len(l.flights)
	for _, t := range l.trips {
		slots = max(slots, l.seat.Pipeline.Size()+len(t.flights)-1)
	}
	at := func(i int) *flight { return l.flights[i%slots] }
	return nn.Belt{
		Op: "blocks", Items: l.trips[0].job.sampler.Steps() * slots,
		Empty: func(i int) bool { return i%slots >= len(l.flights) },
		Take:  func(i int) error { return at(i).take(l.seat) },
		On:    func(i int) []kernels.Tensor { return at(i).onward },
		Back:  func(i int) []kernels.Tensor { return at(i).tokens },
		Done:  func(i int) error { return at(i).done() },
	}.Run(l.seat.Pipeline)
}

// stop ends the samplers that have not come to their end.
func (l *line) stop() {
	for _, t := range l.trips {
		if t.end != nil {
			t.end()
		}
	}
}

// trip is one group of a batch under its sampler, as one rank sees it.
type trip struct {
	job     *job
	flights []*flight // all branches together, or each alone

	// The sampler, on the first stage.
	ask    func() (request, bool) // the next evaluation
	end    func()
	now    request
	answer []float32
	z      []float32
	err    error
}

// request is what a sampler asks of the network.
type request struct {
	rows, timesteps []float32
	generated       []bool
}

// begin starts the sampler, which stands still whenever it has asked for an evaluation.
func (t *trip) begin(ctx context.Context) {
	var b sampler.Batch
	r := t.flights[0].rank // all have the same shares
	t.z, b = t.job.shares(r)
	t.ask, t.end = iter.Pull(func(yield func(request) bool) {
		model := func(_ context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
			if !yield(request{rows, timesteps, generated}) {
				return nil, context.Canceled
			}
			return t.answer, nil
		}
		t.err = t.job.sampler.Sample(ctx, b, t.z, model, t.job.noiseOf(r), nil)
	})
}

// next asks the sampler for an evaluation, for all flights.
func (t *trip) next() error {
	now, more := t.ask()
	if !more {
		return errors.Join(t.err, errors.New("the sampler has ended before its last step"))
	}
	t.now, t.answer = now, t.answer[:0]
	return nil
}

// land lets the sampler take its last step and gives the elements their latents.
func (t *trip) land(seat *nn.Seat, everyone bool) error {
	if seat.Stage.First() {
		if _, more := t.ask(); more {
			return errors.New("the sampler goes on after its last step")
		}
		if t.err != nil || !seat.First() && !everyone {
			return t.err
		}
		if err := t.job.collect(t.flights[0].rank, t.z, everyone); err != nil {
			return err
		}
	}
	if !everyone {
		return nil
	}
	return t.spread(seat)
}

// spread gives the latents of the first stage to the others.
func (t *trip) spread(seat *nn.Seat) error {
	defer seat.Dev.Scope()()
	batch, n := t.job.batch, t.job.values()
	all := make([]float32, 0, len(batch)*n)
	x := seat.Dev.Alloc(kernels.F32, len(batch), n)
	if seat.Stage.First() {
		for _, e := range batch {
			all = append(all, e.Latents.Data...)
		}
		seat.Dev.Upload(x, all)
	}
	if err := seat.Pipeline.Broadcast("latents", 0, x); err != nil || seat.Stage.First() {
		return err
	}
	all = all[:len(batch)*n]
	if err := seat.Dev.Download(all, x); err != nil {
		return err
	}
	for i, e := range batch {
		t.job.finish(e, all[i*n:(i+1)*n:(i+1)*n])
	}
	return nil
}

// flight prepares some branches of the trip on one rank.
func (t *trip) flight(seat *nn.Seat, plan *sequence.Plan, branch, branches int) (*flight, error) {
	r, err := t.job.rank(seat, plan, branch, branches)
	if err != nil {
		return nil, err
	}
	return newFlight(t, r), nil
}
