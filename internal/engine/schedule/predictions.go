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

// Predictions caches the answers of the stages and the cost model about batches, because computing an answer walks through a
// whole model. Answers never change, so schedules of the same steps may share one Predictions.
type Predictions struct {
	mu    sync.Mutex
	costs map[costKey]*cost.Estimate // nil: the stage has no estimate
	needs map[needKey]need
	model map[modelKey]float64 // seconds by the cost model
	name  []byte               // buffer for the set of a modelKey
	found map[question]float64 // cached answers of other functions
}

// NewPredictions returns an empty table.
func NewPredictions() *Predictions {
	return &Predictions{costs: map[costKey]*cost.Estimate{}, needs: map[needKey]need{}, model: map[modelKey]float64{},
		found: map[question]float64{}}
}

// costKey is the key of predictions for rows of one shape in one stage.
type costKey struct {
	stage int
	shape schemas.Bucket
}

// modelKey is the key of a predicted time: a number of elements on a set. The set is named by all properties that matter.
type modelKey struct {
	costKey
	elements int
	set      string
}

// appendSet appends the name of a set of devices to name. Equal neighbours are named once, with their count, because a large
// set has few kinds of devices and is looked up often.
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

// sameCost reports whether two devices of a set have equal predictions.
func sameCost(a, b layout.DeviceModel) bool {
	return a.Rate == b.Rate && a.Link == b.Link && a.Host == b.Host && a.Island == b.Island && a.Node == b.Node
}

// needKey is the key of a memory need: a number of elements of one shape in one stage.
type needKey struct {
	costKey
	elements int
}

// need is the cached answer of Stage.Need.
type need struct {
	bytes int64
	err   error
}

// need returns the memory in bytes that the stage needs for n rows like row. It asks the stage once and caches the answer.
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

// cost returns the stage's cost estimate for rows like row, or nil if it has none.
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

// seconds returns the time of k elements on a set by the cost model alone, without measured times.
func (p *Predictions) seconds(key costKey, cost *cost.Estimate, k int, set []layout.DeviceModel) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name = appendSet(p.name[:0], set)
	s, known := p.model[modelKey{key, k, string(p.name)}]
	if !known {
		if len(p.model) >= maxPredictions {
			clear(p.model)
		}
		s, _ = layout.Seconds(*cost, k, set) // 0: unknown
		p.model[modelKey{key, k, string(p.name)}] = s
	}
	return s
}

// maxPredictions bounds the cached times.
const maxPredictions = 4096

// most returns how many elements, up to limit, fit a set of n devices of the given memory.
func (p *Predictions) most(key costKey, cost *cost.Estimate, memory int64, n, limit int) int {
	return int(p.cached(question{"most", key, memory, n, limit, ""}, func() float64 {
		return float64(layout.Most(*cost, layout.DeviceModel{Memory: memory}, n, limit))
	}))
}

// least returns how many devices of the given memory an element needs, at most n; 0: unknown.
func (p *Predictions) least(key costKey, cost *cost.Estimate, memory int64, n int) int {
	return int(p.cached(question{"least", key, memory, n, 0, ""}, func() float64 {
		k, err := layout.Least(*cost, 1, layout.DeviceModel{Memory: memory}, n)
		if err != nil {
			return 0
		}
		return float64(k)
	}))
}

// question is the key of a cached answer.
type question struct {
	what string
	costKey
	memory   int64
	n, limit int
	devices  string // their numbers
}

// cached returns the cached answer to q, or calls find and caches its result.
func (p *Predictions) cached(q question, find func() float64) float64 {
	p.mu.Lock()
	v, known := p.found[q]
	p.mu.Unlock()
	if !known {
		v = find() // without the lock, because find calls need
		p.mu.Lock()
		p.found[q] = v
		p.mu.Unlock()
	}
	return v
}
