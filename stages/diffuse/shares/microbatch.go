package shares

import (
	"slices"

	"latentbeam/kernels"
	"latentbeam/stages/diffuse/dit"
)

// Microbatch is the unit that moves through the stages of a pipeline: the rows of one rank.
type Microbatch struct {
	*Rank
	// Holds says what the microbatch holds on its way through the stages, on this rank.
	Holds  Holding
	Onward []kernels.Tensor // tensors for the next stage: the tokens, and the state
	Back   []kernels.Tensor // tensors that return: the output tokens (n, T', W, K) of every part

	xs []kernels.Tensor // tokens (n, T', W, C) of every part
	// state (1 + B T'): the timestep, or -1 times the Holding if that is below 0; then for each frame 1 if it is being
	// denoised, 0 if it is given
	state kernels.Tensor
}

// Holding is what a microbatch holds.
type Holding int

// The values of Holding: rows to compute; no rows because this sampling has finished; no rows because all samplings have.
const (
	Rows Holding = iota
	Nothing
	TheEnd
)

// NewMicrobatch allocates the tensors of a microbatch, in the scope open at the call.
func (r *Rank) NewMicrobatch() *Microbatch {
	m := &Microbatch{Rank: r, xs: r.streams()}
	for _, p := range r.split.Parts() {
		m.Back = append(m.Back, r.dev.Alloc(r.DType, p.Rows.Len, r.frames, p.Patches.Len, r.Outputs()))
	}
	m.state = r.dev.Alloc(kernels.F32, 1+r.rows.Len*r.frames)
	m.Onward = append(slices.Clone(m.xs), m.state)
	return m
}

// Embed writes the tokens for an evaluation, on the first stage. rows holds one branch, because all branches of an element
// start with the same latents.
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

// Hold makes the microbatch travel without rows, on the first stage.
func (m *Microbatch) Hold(h Holding) {
	values := make([]float32, m.state.Len())
	values[0] = -float32(h)
	m.dev.Upload(m.state, values)
}

// Advance runs the blocks of this rank on the tokens. last says that this is the last stage.
func (m *Microbatch) Advance(last bool) error {
	defer m.dev.Scope()()
	at, err := m.readState()
	if err != nil || m.Holds != Rows {
		return err
	}
	tokens, err := m.batch.Advance(m.xs, at, last)
	for i := range tokens {
		m.dev.Copy(m.Back[i], tokens[i])
	}
	return err
}

// readState reads the state: the instant, and what the microbatch holds.
func (m *Microbatch) readState() (dit.Instant, error) {
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
	return m.instant(values[0], generated), nil
}

// Predictions returns the sampler's predictions from the tokens that have returned. z is the length of the latents of all
// branches on this rank.
func (m *Microbatch) Predictions(z int) ([]float32, error) {
	defer m.dev.Scope()()
	return m.predictions(m.Back, z)
}
