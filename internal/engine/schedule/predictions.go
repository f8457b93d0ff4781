package schedule

import (
	"encoding/binary"
	"math"
	"sync"

	"latentbeam/schemas"
	"latentbeam/stages"
	"latentbeam/stages/cost"
	"latentbeam/stages/layout"
)

// Predictions is what the stages of a job and the cost model say of its batches. Each is asked once: they go through
// their models for it. Schedules of the same steps share one table; what they say does not change with time.
type Predictions struct {
	mu    sync.Mutex
	costs map[costKey]*cost.Estimate // nil: the stage cannot say
	needs map[needKey]need
	model map[modelKey]float64 // seconds by the model
	name  []byte               // of the set of a modelKey, in the making
	found map[question]float64 // other answers
}

// NewPredictions returns an empty table.
func NewPredictions() *Predictions {
	return &Predictions{costs: map[costKey]*cost.Estimate{}, needs: map[needKey]need{}, model: map[modelKey]float64{},
		found: map[question]float64{}}
}

// costKey is what predictions for rows of a shape are kept under.
type costKey struct {
	stage int
	shape schemas.Bucket
}

// modelKey is what a prediction depends on: so many elements on a set, which is named by all that counts of its devices.
type modelKey struct {
	costKey
	elements int
	set      string
}

// appendSet appends the name of a set of devices to name. Devices that are alike and neighbours are named once: a large
// set has few kinds, and is looked up at every width.
func appendSet(name []byte, set []layout.DeviceModel) []byte {
	order := binary.LittleEndian
	for i := 0; i < len(set); {
		d, n := set[i].Relative(set[0]), 1
		for i+n < len(set) && sameCost(set[i+n], set[i]) {
			n++
		}
		for _, v := range [...]float64{d.Rate, d.Link, d.Host} {
			name = order.AppendUint64(name, math.Float64bits(v))
		}
		for _, v := range [...]int{d.Island, d.Node, n} {
			name = order.AppendUint64(name, uint64(v))
		}
		i += n
	}
	return name
}

// sameCost reports whether predictions do not tell two devices of a set apart.
func sameCost(a, b layout.DeviceModel) bool {
	return a.Rate == b.Rate && a.Link == b.Link && a.Host == b.Host && a.Island == b.Island && a.Node == b.Node
}

// needKey is so many elements.
type needKey struct {
	costKey
	elements int
}

// need is what a stage says of them.
type need struct {
	bytes int64
	err   error
}

// need returns what the stage says that a batch of n rows like row takes. Stages find that out by going through their
// model, so each is asked once.
func (p *Predictions) need(key costKey, s *stages.Step, row *schemas.PromptRow, n int) (int64, error) {
	p.mu.Lock()
	known, ok := p.needs[needKey{key, n}]
	p.mu.Unlock()
	if !ok {
		known.bytes, known.err = s.Need(row, n)
		p.mu.Lock()
		p.needs[needKey{key, n}] = known
		p.mu.Unlock()
	}
	return known.bytes, known.err
}

// cost returns what the stage says of rows like row, or nil where it cannot say.
func (p *Predictions) cost(key costKey, s *stages.Step, row *schemas.PromptRow) *cost.Estimate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.costs[key]; ok {
		return c
	}
	var found *cost.Estimate
	if costOf := s.Capabilities().Cost; costOf != nil {
		if cost, err := costOf(row); err == nil {
			of := *row
			cost.Need = func(n int) (int64, error) { return p.need(key, s, &of, n) }
			found = &cost
		}
	}
	p.costs[key] = found
	return found
}

// seconds returns what the cost model says of k elements on a set, for a device that nobody has timed.
func (p *Predictions) seconds(key costKey, cost *cost.Estimate, k int, set []layout.DeviceModel) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name = appendSet(p.name[:0], set)
	s, known := p.model[modelKey{key, k, string(p.name)}]
	if !known {
		if len(p.model) >= maxPredictions {
			clear(p.model)
		}
		s, _ = layout.Seconds(*cost, k, set) // 0 where it cannot be said
		p.model[modelKey{key, k, string(p.name)}] = s
	}
	return s
}

// maxPredictions bounds those that are kept.
const maxPredictions = 4096

// most returns how many elements, up to limit, fit a set of n devices of the given memory.
func (p *Predictions) most(key costKey, cost *cost.Estimate, memory int64, n, limit int) int {
	return int(p.once(question{"most", key, memory, n, limit, ""}, func() float64 {
		return float64(layout.Most(*cost, layout.DeviceModel{Memory: memory}, n, limit))
	}))
}

// least returns how many devices of the given memory an element needs, of at most n, 0 where that cannot be said.
func (p *Predictions) least(key costKey, cost *cost.Estimate, memory int64, n int) int {
	return int(p.once(question{"least", key, memory, n, 0, ""}, func() float64 {
		k, err := layout.Least(*cost, 1, layout.DeviceModel{Memory: memory}, n)
		if err != nil {
			return 0
		}
		return float64(k)
	}))
}

// question is what an answer depends on, beside the stage and the shape.
type question struct {
	what string
	costKey
	memory   int64
	n, limit int
	devices  string // their numbers
}

// once keeps what find returned for a question.
func (p *Predictions) once(q question, find func() float64) float64 {
	p.mu.Lock()
	v, known := p.found[q]
	p.mu.Unlock()
	if !known {
		v = find() // which asks for needs
		p.mu.Lock()
		p.found[q] = v
		p.mu.Unlock()
	}
	return v
}
