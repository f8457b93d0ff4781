package diffuse

import (
	"context"
	"errors"
	"iter"

	"latentbeam/kernels"
	"latentbeam/stages/cost"
	"latentbeam/stages/nn"
	"latentbeam/stages/sampler"
	"latentbeam/stages/weight"
)

// In a pipeline the elements of a batch go in groups, at least as many as there are stages. Each group is a sampling: it
// has a sampler of its own on the first stage, so that its next step can begin as soon as its last one is back, while
// the other groups are on their way. With as many groups as stages no stage waits. Fewer send the branches of guidance
// apart, which meet at the end of the step.

// groups cuts the batch for a pipeline.
func (j *job) groups(g cost.Grid) (out []*job) {
	n := g.Groups(len(j.batch))
	for i := range n {
		some, from, to := *j, i*len(j.batch)/n, (i+1)*len(j.batch)/n
		some.batch, some.plans = j.batch[from:to], &plans{}
		if j.masks != nil {
			some.masks = j.masks[from*j.size.T : to*j.size.T]
		}
		out = append(out, &some)
	}
	return out
}

// samplePipeline samples jobs at once on one rank of a grid of several stages.
func (m maker) samplePipeline(ctx context.Context, jobs []*job) error {
	defer m.dev.Scope()()
	l := &pipeline{seat: m.seat}
	defer l.stop()
	elements := 0
	for _, j := range jobs {
		elements += len(j.batch)
	}
	for _, j := range jobs {
		rows := j.branches() // that go together
		if m.seat.Apart(elements) {
			rows = 1
		}
		ranks, err := j.ranks(m.seat, m.speeds, rows)
		if err != nil {
			return err
		}
		l.add(ctx, j, ranks, m.saverOf(ctx, j))
	}
	if err := l.run(); err != nil {
		return err
	}
	for _, s := range l.samplings {
		if err := s.finish(m.seat, m.alike); err != nil {
			return err
		}
	}
	return nil
}

// pipeline is what goes through the stages on one rank.
type pipeline struct {
	seat      *nn.Seat
	samplings []*sampling
	items     []*item
}

// add takes a job with the ranks of all its branches, or of each.
func (l *pipeline) add(ctx context.Context, j *job, ranks []*rank, v *saver) {
	s := &sampling{job: j, saver: v}
	for _, r := range ranks {
		s.items = append(s.items, newItem(s, r))
	}
	if l.seat.Stage.First() {
		s.begin(ctx, s.items[0].rank, l.seat.First()) // all have the same shares
	}
	l.samplings, l.items = append(l.samplings, s), append(l.items, s.items...)
}

// run lets all items take all steps. A step has a slot for each, and empty ones where they are so few that the first
// item of a sampling would come round before the last is back.
func (l *pipeline) run() error {
	slots := len(l.items)
	for _, s := range l.samplings {
		slots = max(slots, l.seat.Pipeline.Size()+len(s.items)-1)
	}
	at := func(i int) *item { return l.items[i%slots] }
	return weight.Belt{
		Op: "blocks", Items: l.samplings[0].job.steps() * slots,
		Empty: func(i int) bool { return i%slots >= len(l.items) },
		Take:  func(i int) error { return at(i).take(l.seat) },
		On:    func(i int) []kernels.Tensor { return at(i).onward },
		Back:  func(i int) []kernels.Tensor { return at(i).tokens },
		Done:  func(i int) error { return at(i).done() },
	}.Run(l.seat.Pipeline)
}

// stop ends the samplers that have not come to their end.
func (l *pipeline) stop() {
	for _, s := range l.samplings {
		if s.end != nil {
			s.end()
		}
		s.saver.wait()
	}
}

// sampling is one group of a batch under its sampler, as one rank sees it.
type sampling struct {
	job   *job
	items []*item // all branches together, or each alone
	saver *saver

	// The sampler, on the first stage.
	ask    func() (question, bool) // the next evaluation
	end    func()
	now    question
	answer []float32
	z      []float32
	err    error
}

// question is what a sampler asks of the network.
type question struct {
	rows, timesteps []float32
	generated       []bool
}

// begin starts the sampler of a rank's shares; first says that its group gives the results.
func (s *sampling) begin(ctx context.Context, r *rank, first bool) {
	z, b := s.job.shares(r)
	if first {
		b.After = s.saver.shares(r, z)
	}
	s.start(ctx, z, b, s.job.noiseOf(r))
}

// start starts the sampler, which stands still whenever it has asked for an evaluation.
func (s *sampling) start(ctx context.Context, z []float32, b sampler.Batch, noise sampler.Noise) {
	s.z = z
	s.ask, s.end = iter.Pull(func(yield func(question) bool) {
		model := func(_ context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
			if !yield(question{rows, timesteps, generated}) {
				return nil, context.Canceled
			}
			return s.answer, nil
		}
		s.err = s.job.sampler.Sample(ctx, b, s.z, model, noise, s.job.progress(ctx))
	})
}

// next asks the sampler for an evaluation, for all items.
func (s *sampling) next() error {
	now, more := s.ask()
	if !more {
		return errors.Join(s.err, errors.New("the sampler has ended before its last step"))
	}
	s.now, s.answer = now, s.answer[:0]
	return nil
}

// finish lets the sampler take its last step and gives the elements their latents.
func (s *sampling) finish(seat *nn.Seat, alike bool) error {
	if seat.Stage.First() {
		if _, more := s.ask(); more {
			return errors.New("the sampler goes on after its last step")
		}
		if s.err != nil || !seat.First() && !alike {
			return s.err
		}
		if err := s.job.collect(s.items[0].rank, s.z, alike); err != nil {
			return err
		}
	}
	if !alike {
		return nil
	}
	return s.spread(seat)
}

// spread gives the latents of the first stage to the others.
func (s *sampling) spread(seat *nn.Seat) error {
	defer seat.Dev.Scope()()
	batch, n := s.job.batch, s.job.values()
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
		s.job.finish(e, all[i*n:(i+1)*n:(i+1)*n])
	}
	return nil
}
