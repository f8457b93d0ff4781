package sampler

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// State is the progress of a sampling. With the latents of that moment it is everything that Sample needs to resume, in another
// process and in another batch.
type State struct {
	Done   int       // finished steps
	Memory []History // tensors that the sampler remembers besides the latents; most samplers have none
}

// History is a tensor that a sampler keeps between steps, such as an earlier prediction. It has the length and order of z. A
// Sample call that resumes copies it.
type History struct {
	Name   string
	Values []float32
}

// checkState returns an error if a sampling cannot resume from the state of the batch.
func (b Batch) checkState(steps, length int, remembers func(done int) []string) error {
	s := b.From
	if s.Done < 0 || s.Done >= steps {
		return fmt.Errorf("resume after step %d of %d", s.Done, steps)
	}
	want := remembers(s.Done)
	if len(s.Memory) != len(want) {
		return fmt.Errorf("resume after step %d with %d remembered tensors, want %v", s.Done, len(s.Memory), want)
	}
	for i, m := range s.Memory {
		if m.Name != want[i] || len(m.Values) != length {
			return fmt.Errorf("resume with %d values of %q, want %d of %q", len(m.Values), m.Name, length, want[i])
		}
	}
	return nil
}

// remembersNothing is the remembers function of samplers whose steps depend only on the latents.
func remembersNothing(int) []string { return nil }

// noHistory is the memory function of these samplers.
func noHistory(int) []History { return nil }

// stepped reports to After that done of steps steps are finished.
func (b Batch) stepped(done, steps int, memory []History) error {
	if b.After == nil || done == steps {
		return nil
	}
	return b.After(State{Done: done, Memory: memory})
}

// Signature returns a signature for Sampler.Signature: the name and a digest of the tables.
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

// toFloat64 converts values for Signature.
func toFloat64(values []float32) []float64 {
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
	return Signature(name, toFloat64(s.timesteps))
}

// Signature names the sampler and its tables.
func (s *FlowEuler) Signature() string {
	return Signature("euler", toFloat64(s.timesteps), toFloat64(s.sigmas))
}

// Signature names the sampler and its tables.
func (s *UniPC) Signature() string { return Signature("unipc", toFloat64(s.timesteps), s.sigmas) }

// The tensors that UniPC remembers.
const (
	uniData   = "data"   // data predicted by the last step
	uniLast   = "last"   // corrected z of the last step
	uniBefore = "before" // data predicted by the step before
)

// remembers returns the names of the tensors that UniPC remembers after done steps.
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

// memory returns the tensors that the run remembers after done steps.
func (u *uniRun) memory(done int) (out []History) {
	all := map[string][]float32{uniData: u.data, uniLast: u.last, uniBefore: u.before}
	for _, name := range u.remembers(done) {
		out = append(out, History{name, all[name]})
	}
	return out
}

// recall restores the tensors that another run remembered.
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

// orderOf returns the order of the predictor in step i.
func (s *UniPC) orderOf(i int) int { return min(2, len(s.timesteps)-i, i+1) }
