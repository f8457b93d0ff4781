package stdit

import (
	"latentbeam/kernels"
	"latentbeam/stages/nn"
)

// flight is what of a trip goes through the stages together, as one rank sees it.
type flight struct {
	*rank
	trip   *trip
	stream *stream
	state  kernels.Tensor   // (1 + B T'): the timestep, and 1 for each frame that is being denoised, 0 for given ones
	onward []kernels.Tensor // what goes on: the parts of the stream, and the state
	tokens []kernels.Tensor // what comes back: the output tokens (n, T', W, K) of every part
}

// newFlight makes the tensors of a flight.
func newFlight(t *trip, r *rank) *flight {
	m, frames := r.model, r.prepared.times.Len
	f := &flight{rank: r, trip: t, stream: &stream{p: r.prepared, dt: m.DType, split: r.split}}
	for i, p := range r.split.Parts() {
		x := r.dev.Alloc(m.DType, p.Rows.Len, frames, p.Patches.Len, m.HiddenSize) // (n, T', W, C)
		f.stream.parts = append(f.stream.parts, part{x, r.local(p.Rows), r.parts[i]})
		f.onward = append(f.onward, x)
		f.tokens = append(f.tokens, r.dev.Alloc(m.DType, p.Rows.Len, frames, p.Patches.Len,
			m.PatchSize.Size()*m.OutChannels()))
	}
	f.state = r.dev.Alloc(kernels.F32, 1+r.rows.Len*frames)
	f.onward = append(f.onward, f.state)
	return f
}

// take runs the blocks of this rank on the flight.
func (f *flight) take(seat *nn.Seat) error {
	f.next()
	defer f.dev.Scope()()
	if seat.Stage.First() {
		if err := f.launch(); err != nil {
			return err
		}
	}
	now, err := f.instant()
	if err != nil {
		return err
	}
	tokens, err := f.advance(f.stream, now, seat.Stage.Last())
	for i := range tokens {
		f.dev.Copy(f.tokens[i], tokens[i])
	}
	return err
}

// launch puts what the sampler asks for into the stream. The first flight of a trip asks; all branches of an element
// begin with the same.
func (f *flight) launch() error {
	if f.branch == 0 {
		if err := f.trip.next(); err != nil {
			return err
		}
	}
	q, branches := &f.trip.now, f.trip.job.branches()
	fresh := f.embed(q.rows[:len(q.rows)/branches])
	for i, p := range fresh.parts {
		f.dev.Copy(f.stream.parts[i].x, p.x)
	}
	now := f.conditions(q.timesteps[:len(q.timesteps)/branches], q.generated[:len(q.generated)/branches])
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

// done adds the flight's branches to the answer for the sampler.
func (f *flight) done() error {
	defer f.dev.Scope()()
	t := f.trip
	out, err := f.predictions(f.tokens, len(t.now.rows)/t.job.branches()*f.branches)
	t.answer = append(t.answer, out...)
	return err
}
