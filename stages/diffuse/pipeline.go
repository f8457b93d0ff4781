package diffuse

import (
	"context"
	"errors"
	"iter"
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/cost"
	"latentbeam/stages/diffuse/shares"
	"latentbeam/stages/nn"
	"latentbeam/stages/weights"
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
	l := &pipeline{place: m.place}
	defer l.stop()
	elements := 0
	for _, j := range jobs {
		elements += len(j.batch)
	}
	for _, j := range jobs {
		rows := j.branches() // that go together
		if _, _, some := j.guidedSteps(); some || m.place.Apart(elements) {
			rows = 1
		}
		ranks, err := j.ranks(m.place, m.speeds, rows)
		if err != nil {
			return err
		}
		l.add(ctx, j, ranks, m.newSaver())
	}
	if err := l.run(); err != nil {
		return err
	}
	for _, s := range l.samplings {
		if err := m.finish(s); err != nil {
			return err
		}
	}
	return nil
}

// pipeline is what goes through the stages on one rank.
type pipeline struct {
	place     *nn.GridRank
	samplings []*sampling
	items     []*item
}

// add takes a job with the ranks of all its branches, or of each. They have the same shares.
func (l *pipeline) add(ctx context.Context, j *job, ranks []*shares.Rank, v *saver) {
	s := &sampling{portion: portion{j, ranks[0]}, saver: v, network: newNetworks(j), step: j.done}
	for i, r := range ranks {
		s.items = append(s.items, &item{r.NewMicrobatch(), s, i == 0})
	}
	if l.place.Stage.First() {
		s.begin(ctx, l.place.First())
	}
	l.samplings, l.items = append(l.samplings, s), append(l.items, s.items...)
}

// run lets all items take all steps. A step has a slot for each, and empty ones where they are so few that the first
// item of a sampling would come round before the last is back.
func (l *pipeline) run() error {
	slots := len(l.items)
	for _, s := range l.samplings {
		slots = max(slots, l.place.Pipeline.Size()+len(s.items)-1)
	}
	at := func(i int) *item { return l.items[i%slots] }
	p := weights.Pipeline{
		Op: "blocks", Items: l.samplings[0].steps() * slots,
		Empty: func(i int) bool { return i%slots >= len(l.items) },
		Take:  func(i int) error { return at(i).advance(l) },
		On:    func(i int) []kernels.Tensor { return at(i).Onward },
		Back:  func(i int) []kernels.Tensor { return at(i).Back },
		Done:  func(i int) error { return at(i).done() },
		Void:  func(i int) bool { return at(i).Holds != shares.Rows },
	}
	if l.samplings[0].Options.UsesEasyCache() { // a sampling comes round for each step that is computed, and once more at its end
		p.Items += slots
		p.Ends = func(i int) bool { return at(i).Holds == shares.TheEnd }
	}
	return p.Run(l.place.Pipeline)
}

// over reports whether all samplers have come to their end.
func (l *pipeline) over() bool {
	return !slices.ContainsFunc(l.samplings, func(s *sampling) bool { return !s.over })
}

// stop ends the samplers that have not come to their end.
func (l *pipeline) stop() {
	for _, s := range l.samplings {
		if s.end != nil {
			s.end()
		}
	}
}

// item is a microbatch of a sampling.
type item struct {
	*shares.Microbatch
	sampling *sampling
	first    bool // of its sampling
}

// advance runs the blocks of this rank on the item. On the first stage the first item of a sampling asks its sampler.
func (f *item) advance(l *pipeline) error {
	f.Next()
	if s := f.sampling; l.place.Stage.First() {
		if f.first {
			if err := s.next(); err != nil {
				return err
			}
		}
		switch q, n := &s.now, s.branches(); {
		case l.over():
			f.Hold(shares.TheEnd)
		case s.over || !f.first && !s.network.guided(s.step):
			f.Hold(shares.Nothing)
		default:
			f.Embed(q.rows[:len(q.rows)/n], q.timesteps[:len(q.timesteps)/n], q.generated[:len(q.generated)/n])
		}
	}
	return f.Advance(l.place.Stage.Last())
}

// done adds the item's branches to the answer for the sampler.
func (f *item) done() error {
	s := f.sampling
	out, err := f.Predictions(len(s.now.rows) / s.branches() * f.Branches)
	if err != nil {
		return err
	}
	s.answer = append(s.answer, out...)
	if s.answered += f.Branches; s.answered < s.network.computed(s.step) {
		return nil
	}
	return s.computed()
}

// sampling is one group of a batch under its sampler, as one rank sees it.
type sampling struct {
	portion
	items []*item // all branches together, or each alone
	saver *saver

	// The sampler, on the first stage.
	ask    func() (question, bool) // the next evaluation
	end    func()
	now    question
	answer []float32
	z      []float32
	err    error
	over   bool // it has come to its end

	step     int // that the sampler asks for
	answered int // branches that are in the answer
	network  *networks
	cache    *easyCache // nil: every step is computed
}

// question is what a sampler asks of the network.
type question struct {
	rows, timesteps []float32
	generated       []bool
}

// begin starts the sampler, which stands still whenever it has asked for an evaluation; first says that this rank gives
// the results.
func (s *sampling) begin(ctx context.Context, first bool) {
	z, b := s.portion.initialLatents()
	s.cache = newEasyCache(s.portion, s.network, &b.From)
	if first {
		b.After = s.network.mag.after(s.cache.after(s.saver.after(s.portion, z)))
	}
	s.z = z
	noise := s.noise()
	s.ask, s.end = iter.Pull(func(yield func(question) bool) {
		model := func(_ context.Context, rows, timesteps []float32, generated []bool) ([]float32, error) {
			if !yield(question{rows, timesteps, generated}) {
				return nil, context.Canceled
			}
			return s.answer, nil
		}
		s.err = s.sampler.Sample(ctx, b, z, model, noise, s.progress(ctx))
	})
}

// next asks the sampler for an evaluation, for all items. With a cache it goes through the steps that the cache gives, to one that is
// computed or to the end.
func (s *sampling) next() error {
	for !s.over {
		now, more := s.ask()
		if s.over = !more; s.over && (s.err != nil || s.cache == nil) {
			return errors.Join(s.err, errors.New("the sampler has ended before its last step"))
		}
		if s.over {
			return nil
		}
		s.now, s.answer = now, s.answer[:0]
		if s.cache == nil {
			return nil
		}
		guess, err := s.cache.lookUp(now.rows)
		if guess == nil || err != nil {
			return err
		}
		s.answer = append(s.answer, guess...)
		s.step++
	}
	return nil
}

// computed makes the answer to a step of what was computed.
func (s *sampling) computed() error {
	one := s.answer
	for ; s.answered < s.branches(); s.answered++ {
		s.answer = append(s.answer, one...)
	}
	s.network.evaluations += s.network.computed(s.step)
	s.step++
	s.answered = 0
	if s.cache == nil {
		return nil
	}
	return s.cache.learn(s.now.rows, s.answer)
}

// finish lets the sampler of s take its last step and gives the elements their latents.
func (m maker) finish(s *sampling) error {
	if m.place.Stage.First() {
		if _, more := s.ask(); more {
			return errors.New("the sampler goes on after its last step")
		}
		if s.err != nil || !m.first() && !m.alike {
			return s.err
		}
		if err := m.deliver(s.portion, s.z, s.network.evaluations); err != nil {
			return err
		}
	}
	if !m.alike {
		return nil
	}
	return s.spread(m.place)
}

// spread gives the latents of the first stage to the others.
func (s *sampling) spread(place *nn.GridRank) error {
	defer place.Dev.Scope()()
	var all []float32
	x := place.Dev.Alloc(kernels.F32, len(s.batch), s.values())
	if place.Stage.First() {
		for _, e := range s.batch {
			all = append(all, e.Latents.Data...)
		}
		place.Dev.Upload(x, all)
	}
	if err := place.Pipeline.Broadcast("latents", 0, x); err != nil || place.Stage.First() {
		return err
	}
	all = make([]float32, x.Len())
	if err := place.Dev.Download(all, x); err != nil {
		return err
	}
	s.job.finish(all)
	return nil
}
