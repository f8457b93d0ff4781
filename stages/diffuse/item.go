package diffuse

import (
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// item is what of a sampling goes through the stages together, as one rank sees it.
type item struct {
	*rank
	sampling *sampling
	xs       []kernels.Tensor // the tokens (n, T', W, C) of every part
	state    kernels.Tensor   // (1 + B T'): the timestep, and 1 for each frame that is being denoised, 0 for given ones
	onward   []kernels.Tensor // what goes on: the tokens, and the state
	tokens   []kernels.Tensor // what comes back: the output tokens (n, T', W, K) of every part
}

// newItem makes the tensors of an item.
func newItem(s *sampling, r *rank) *item {
	f := &item{rank: r, sampling: s, xs: r.streams()}
	for _, p := range r.split.Parts() {
		f.tokens = append(f.tokens, r.dev.Alloc(r.j.DType, p.Rows.Len, r.frames, p.Patches.Len, r.j.outputs()))
	}
	f.state = r.dev.Alloc(kernels.F32, 1+r.rows.Len*r.frames)
	f.onward = append(slices.Clone(f.xs), f.state)
	return f
}

// take runs the blocks of this rank on the item.
func (f *item) take(seat *nn.Seat) error {
	f.next()
	defer f.dev.Scope()()
	if seat.Stage.First() {
		if err := f.start(); err != nil {
			return err
		}
	}
	now, err := f.now()
	if err != nil {
		return err
	}
	tokens, err := f.batch.Advance(f.xs, now, seat.Stage.Last())
	for i := range tokens {
		f.dev.Copy(f.tokens[i], tokens[i])
	}
	return err
}

// start puts what the sampler asks for into the stream. The first item of a sampling asks; all branches of an element
// begin with the same.
func (f *item) start() error {
	if f.branch == 0 {
		if err := f.sampling.next(); err != nil {
			return err
		}
	}
	q, branches := &f.sampling.now, f.sampling.job.branches()
	f.embed(f.xs, q.rows[:len(q.rows)/branches])
	timesteps := q.timesteps[:len(q.timesteps)/branches]
	marks := f.marks(q.generated[:len(q.generated)/branches], len(timesteps))
	values := make([]float32, f.state.Len())
	values[0] = timesteps[0]
	for i := range values[1:] {
		if marks == nil || marks[i] {
			values[1+i] = 1
		}
	}
	f.dev.Upload(f.state, values)
	return nil
}

// now reads the state.
func (f *item) now() (Instant, error) {
	values := make([]float32, f.state.Len())
	if err := f.dev.Download(values, f.state); err != nil {
		return Instant{}, err
	}
	given := false
	generated := make([]bool, len(values)-1)
	for i, v := range values[1:] {
		generated[i] = v != 0
		given = given || !generated[i]
	}
	if !given {
		generated = nil
	}
	return f.at(values[0], generated), nil
}

// done adds the item's branches to the answer for the sampler.
func (f *item) done() error {
	defer f.dev.Scope()()
	t := f.sampling
	out, err := f.predictions(f.tokens, len(t.now.rows)/t.job.branches()*f.branches)
	t.answer = append(t.answer, out...)
	return err
}
