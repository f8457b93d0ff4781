package shares

import (
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
)

// Microbatch is what goes through the stages of a pipeline together: the rows of a rank.
type Microbatch struct {
	*Rank
	// Holds says what the microbatch holds on its way through the stages, on this rank.
	Holds  Holding
	Onward []kernels.Tensor // what goes on to the next stage: the tokens, and the state
	Back   []kernels.Tensor // what comes back: the output tokens (n, T', W, K) of every part

	xs []kernels.Tensor // the tokens (n, T', W, C) of every part
	// (1 + B T'): the timestep, below 0 the Holding times -1; then 1 for each frame that is being denoised, 0 for given ones
	state kernels.Tensor
}

// Holding is what a microbatch holds.
type Holding int

// A microbatch has rows to compute, or none because its sampling has come to its end, or none because all have.
const (
	Rows Holding = iota
	Nothing
	TheEnd
)

// NewMicrobatch makes the tensors of a microbatch, in the scope open at the call.
func (r *Rank) NewMicrobatch() *Microbatch {
	m := &Microbatch{Rank: r, xs: r.streams()}
	for _, p := range r.split.Parts() {
		m.Back = append(m.Back, r.dev.Alloc(r.DType, p.Rows.Len, r.frames, p.Patches.Len, r.Outputs()))
	}
	m.state = r.dev.Alloc(kernels.F32, 1+r.rows.Len*r.frames)
	m.Onward = append(slices.Clone(m.xs), m.state)
	return m
}

// Embed puts what a sampler asks for into the stream, on the first stage: rows of one branch, for all branches of an
// element begin with the same.
func (m *Microbatch) Embed(rows, timesteps []float32, generated []bool) {
	defer m.dev.Scope()()
	m.Holds = Rows
	m.embed(m.xs, rows)
	marks := m.marks(generated, len(timesteps))
	values := make([]float32, m.state.Len())
	values[0] = timesteps[0]
	for i := range values[1:] {
		if marks == nil || marks[i] {
			values[1+i] = 1
		}
	}
	m.dev.Upload(m.state, values)
}

// Hold lets the microbatch go on without rows, on the first stage.
func (m *Microbatch) Hold(h Holding) {
	values := make([]float32, m.state.Len())
	values[0] = -float32(h)
	m.dev.Upload(m.state, values)
}

// Advance runs the blocks of this rank on rows, with last those of the last stage.
func (m *Microbatch) Advance(last bool) error {
	defer m.dev.Scope()()
	at, err := m.now()
	if err != nil || m.Holds != Rows {
		return err
	}
	tokens, err := m.batch.Advance(m.xs, at, last)
	for i := range tokens {
		m.dev.Copy(m.Back[i], tokens[i])
	}
	return err
}

// now reads the state, and what the microbatch holds.
func (m *Microbatch) now() (dit.Instant, error) {
	values := make([]float32, m.state.Len())
	if err := m.dev.Download(values, m.state); err != nil {
		return dit.Instant{}, err
	}
	if m.Holds = Rows; values[0] < 0 {
		m.Holds = Holding(-values[0])
		return dit.Instant{}, nil
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
	return m.at(values[0], generated), nil
}

// Predictions returns what the sampler gets for the tokens that have come back; z is the length of the latents of all
// branches here.
func (m *Microbatch) Predictions(z int) ([]float32, error) {
	defer m.dev.Scope()()
	return m.predictions(m.Back, z)
}
