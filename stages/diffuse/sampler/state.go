package sampler

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// State is how far a sampling has come. Together with the latents of that moment it is all that Sample needs to go on,
// in another process and in another batch.
type State struct {
	Done   int       // steps
	Memory []History // all that the sampler remembers beside the latents; none for most
}

// History is values that a sampler keeps from step to step, such as earlier predictions. They are as many as those of z and
// in its order. A Sample that goes on copies them.
type History struct {
	Name   string
	Values []float32
}

// checkState says why a sampling of so many steps cannot go on from the state of the batch.
func (b Batch) checkState(steps, length int, remembers func(done int) []string) error {
	s := b.From
	if s.Done < 0 || s.Done >= steps {
		return fmt.Errorf("go on behind step %d of %d", s.Done, steps)
	}
	want := remembers(s.Done)
	if len(s.Memory) != len(want) {
		return fmt.Errorf("go on behind step %d with %d memories, want %v", s.Done, len(s.Memory), want)
	}
	for i, m := range s.Memory {
		if m.Name != want[i] || len(m.Values) != length {
			return fmt.Errorf("go on with %d values of %q, want %d of %q", len(m.Values), m.Name, length, want[i])
		}
	}
	return nil
}

// nothing is what samplers remember whose steps depend on the latents alone.
func nothing(int) []string { return nil }

// noHistory is what they hand on.
func noHistory(int) []History { return nil }

// stepped tells that so many steps of all are done.
func (b Batch) stepped(done, steps int, memory []History) error {
	if b.After == nil || done == steps {
		return nil
	}
	return b.After(State{Done: done, Memory: memory})
}

// Signature names a sampler by its tables, for Sampler.Signature.
func Signature(name string, tables ...[]float64) string {
	h := sha256.New()
	for _, table := range tables {
		var b []byte
		for _, v := range table {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(table))))
		h.Write(b)
	}
	return fmt.Sprintf("%s/%x", name, h.Sum(nil)[:8])
}

// wide are values as Signature takes them.
func wide(values []float32) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}

// Signature names the sampler and its tables.
func (s *IDDPM) Signature() string {
	var table []float64
	for _, c := range s.steps {
		for _, v := range []float32{c.timestep, c.recip, c.recipM1, c.mean0, c.meanT, c.logBeta, c.logPost, c.sqrtBar, c.sqrtBarM1} {
			table = append(table, float64(v))
		}
	}
	return Signature("iddpm", table, []float64{float64(s.guided)})
}

// Signature names the sampler and its tables.
func (s *RectifiedFlow) Signature() string {
	name := "rflow"
	if s.style.Oscillate {
		name += "/oscillate"
	}
	if s.style.Rescale {
		name += "/rescale"
	}
	return Signature(name, wide(s.timesteps))
}

// Signature names the sampler and its tables.
func (s *FlowEuler) Signature() string { return Signature("euler", wide(s.timesteps), wide(s.sigmas)) }

// Signature names the sampler and its tables.
func (s *UniPC) Signature() string { return Signature("unipc", wide(s.timesteps), s.sigmas) }

// The memories of UniPC.
const (
	uniData   = "data"   // that the last step predicted
	uniLast   = "last"   // z of the last step, corrected
	uniBefore = "before" // data that the step before predicted
)

// remembers names what UniPC remembers behind so many steps.
func (s *UniPC) remembers(done int) []string {
	all := []string{uniData, uniLast, uniBefore}
	switch done {
	case 0:
		return nil
	case 1:
		return all[:2]
	}
	return all
}

// memory is what the run remembers behind a step.
func (u *uniRun) memory(done int) (out []History) {
	all := map[string][]float32{uniData: u.data, uniLast: u.last, uniBefore: u.before}
	for _, name := range u.remembers(done) {
		out = append(out, History{name, all[name]})
	}
	return out
}

// recall takes over what another run remembered.
func (u *uniRun) recall(s State) {
	for _, m := range s.Memory {
		values := slices.Clone(m.Values)
		switch m.Name {
		case uniData:
			u.data = values
		case uniLast:
			u.last = values
		case uniBefore:
			u.before = values
		}
	}
	if s.Done > 0 {
		u.order = u.orderOf(s.Done - 1)
	}
}

// orderOf is the order of the predictor of step i.
func (s *UniPC) orderOf(i int) int { return min(2, len(s.timesteps)-i, i+1) }
