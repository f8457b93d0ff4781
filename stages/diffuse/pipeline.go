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

// In a pipeline a batch is divided into groups, at least as many as there are stages. Each group has its own sampler on the
// first stage. So its next step can start as soon as its last one is back, while other groups are in later stages. With as many
// groups as stages no stage waits. With fewer groups the branches of guidance travel separately and are joined at the end of
// the step.

// groups divides the batch for a pipeline.
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

// samplePipeline samples several jobs at once, on one rank of a grid with several stages.
func (m maker) samplePipeline(ctx context.Context, jobs []*job) error {
	defer m.dev.Scope()()
	l := &pipeline{place: m.place}
	defer l.stop()
	elements := 0
	for _, j := range jobs {
		elements += len(j.batch)
	}
	for _, j := range jobs {
		rows := j.branches() // rows that travel together
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

// pipeline is what one rank knows about the samplings in a pipeline.
type pipeline struct {
	place     *nn.GridRank
	samplings []*sampling
	items     []*item
}

// add adds a job with one rank for all its branches, or one for each. The ranks have the same shares.
func (l *pipeline) add(ctx context.Context, j *job, ranks []*shares.Rank, v *saver) {
	s := &sampling{portion: portion{j, ranks[0]}, saver: v, network: newNetworks(j), step: j.done}
	for i, r := range ranks {
		s.items = append(s.items, &item{r.NewMicrobatch(), s, i == 0})
	}
	if l.place.Stage.First() {
		s.start(ctx, l.place.First())
	}
	l.samplings, l.items = append(l.samplings, s), append(l.items, s.items...)
}

// run moves all items through all steps. A step has one slot for each item. It has additional empty slots if the first item of
// a sampling would otherwise return before the last one is back.
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
	if l.samplings[0].Options.UsesEasyCache() { // each computed step needs one round, and one more at the end
		p.Items += slots
		p.Ends = func(i int) bool { return at(i).Holds == shares.TheEnd }
	}
	return p.Run(l.place.Pipeline)
}

// finished reports whether all samplers have finished.
func (l *pipeline) finished() bool {
	return !slices.ContainsFunc(l.samplings, func(s *sampling) bool { return !s.finished })
}

// stop stops the samplers that have not finished.
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
	first    bool // the first item of its sampling
}

// advance runs the blocks of this rank on the item. On the first stage, the first item of a sampling asks its sampler for the
// next evaluation.
func (f *item) advance(l *pipeline) error {
	f.Next()
	if s := f.sampling; l.place.Stage.First() {
		if f.first {
			if err := s.next(); err != nil {
				return err
			}
		}
		switch q, n := &s.now, s.branches(); {
		case l.finished():
			f.Hold(shares.TheEnd)
		case s.finished || !f.first && !s.network.guided(s.step):
			f.Hold(shares.Nothing)
		default:
			f.Embed(q.rows[:len(q.rows)/n], q.timesteps[:len(q.timesteps)/n], q.generated[:len(q.generated)/n])
		}
	}
	return f.Advance(l.place.Stage.Last())
}

// done adds the item's branches to the sampler's answer.
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

// sampling is one group of a batch with its sampler, as one rank sees it.
type sampling struct {
	portion
	items []*item // one for all branches, or one for each
	saver *saver

	// The sampler, on the first stage.
	ask      func() (question, bool) // the next evaluation
	end      func()
	now      question
	answer   []float32
	z        []float32
	err      error
	finished bool // the sampler has finished

	step     int // the step of the current question
	answered int // branches that the answer has so far
	network  *networks
	cache    *easyCache // nil: every step is computed
}

// question is an evaluation that a sampler requests.
type question struct {
	rows, timesteps []float32
	generated       []bool
}

// start starts the sampler. The sampler blocks whenever it has requested an evaluation. first says that this rank delivers the
// results.
func (s *sampling) start(ctx context.Context, first bool) {
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

// next asks the sampler for the next evaluation, for all items. Steps that the cache answers are passed until a step must be
// computed or the sampler finishes.
func (s *sampling) next() error {
	for !s.finished {
		now, more := s.ask()
		if s.finished = !more; s.finished && (s.err != nil || s.cache == nil) {
			return errors.Join(s.err, errors.New("the sampler has ended before its last step"))
		}
		if s.finished {
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

// computed hands the computed predictions to the sampler.
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

// finish lets the sampler of s take its last step and stores the latents in the elements.
func (m maker) finish(s *sampling) error {
	if m.place.Stage.First() {
		if _, more := s.ask(); more {
			return errors.New("the sampler continues after its last step")
		}
		if s.err != nil || !m.first() && !m.replicated {
			return s.err
		}
		if err := m.deliver(s.portion, s.z, s.network.evaluations); err != nil {
			return err
		}
	}
	if !m.replicated {
		return nil
	}
	return s.spread(m.place)
}

// spread sends the latents from the first stage to the other stages.
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
