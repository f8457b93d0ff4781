package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"

	"latentbeam/internal/lend"
	"latentbeam/internal/plan/layout"
	"latentbeam/schemas"
)

// forecast predicts how long batches take, from what the stages say they cost and how long others took. It
// decides nothing but who gets which devices, and how long ranks wait for each other, so a wrong guess costs
// time and never bytes.
type forecast struct {
	mu    sync.Mutex
	costs map[costKey]*layout.Stage // nil: the stage cannot say
	needs map[needKey]need
	model map[modelKey]float64 // seconds by the model
	name  []byte               // of the set of a modelKey, in the making
	fit   map[string]int       // elements that fit a set
	few   map[costKey]int      // fewer than that, where they did not
	pace  map[costKey]float64  // seconds of this machine for one of the model's
	last  map[int]float64      // by stage: the pace of its last batch
}

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
func appendSet(name []byte, set []layout.Device) []byte {
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
func sameCost(a, b layout.Device) bool {
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
func (f *forecast) need(key costKey, s *Step, row *schemas.PromptRow, n int) (int64, error) {
	f.mu.Lock()
	f.open()
	known, ok := f.needs[needKey{key, n}]
	f.mu.Unlock()
	if !ok {
		known.bytes, known.err = s.Need(row, n)
		f.mu.Lock()
		f.needs[needKey{key, n}] = known
		f.mu.Unlock()
	}
	return known.bytes, known.err
}

// cost returns what the stage says of rows like row, or nil where it cannot say.
func (f *forecast) cost(key costKey, s *Step, row *schemas.PromptRow) *layout.Stage {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.costs[key]; ok {
		return c
	}
	var found *layout.Stage
	if costOf := s.Capabilities().Cost; costOf != nil {
		if cost, err := costOf(row); err == nil {
			of := *row
			cost.Need = func(n int) (int64, error) { return f.need(key, s, &of, n) }
			found = &cost
		}
	}
	f.open()
	f.costs[key] = found
	return found
}

// seconds predicts k elements on a set of devices, by the pace of the batches so far; 0 where nothing is known.
func (f *forecast) seconds(key costKey, cost *layout.Stage, k int, set []layout.Device) float64 {
	if cost == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.modelled(key, cost, k, set) * f.paceOf(key)
}

// modelled is what the cost model says, for a device that nobody has timed.
func (f *forecast) modelled(key costKey, cost *layout.Stage, k int, set []layout.Device) float64 {
	f.open()
	f.name = appendSet(f.name[:0], set)
	s, known := f.model[modelKey{key, k, string(f.name)}]
	if !known {
		if len(f.model) >= maxPredictions {
			clear(f.model)
		}
		s, _ = layout.Seconds(*cost, k, set) // 0 where it cannot be said
		f.model[modelKey{key, k, string(f.name)}] = s
	}
	return s
}

// maxPredictions bounds those that are kept.
const maxPredictions = 4096

// learn notes how long a batch took.
func (f *forecast) learn(key costKey, cost *layout.Stage, k int, set []layout.Device, took time.Duration) {
	if cost == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if model := f.modelled(key, cost, k, set); model > 0 && !math.IsInf(model, 0) {
		f.pace[key] = took.Seconds() / model
		f.last[key.stage] = f.pace[key]
	}
}

// measured reports whether batches of a stage have been timed.
func (f *forecast) measured(stage int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last[stage] > 0
}

func (f *forecast) open() {
	if f.costs == nil {
		f.costs, f.model, f.fit = map[costKey]*layout.Stage{}, map[modelKey]float64{}, map[string]int{}
		f.needs = map[needKey]need{}
		f.pace, f.last, f.few = map[costKey]float64{}, map[int]float64{}, map[costKey]int{}
	}
}

// paceOf is the pace of rows like these, of the stage, or of the one before it that was timed.
func (f *forecast) paceOf(key costKey) float64 {
	if p, ok := f.pace[key]; ok {
		return p
	}
	for stage := key.stage; stage >= 0; stage-- {
		if p, ok := f.last[stage]; ok {
			return p
		}
	}
	return 1
}

// most returns how many elements, up to limit, fit a set of n devices of the given memory.
func (f *forecast) most(key costKey, cost *layout.Stage, memory int64, n, limit int) int {
	k := f.once(fmt.Sprint("most", key, memory, n, limit), func() int {
		return layout.Most(*cost, layout.Device{Memory: memory}, n, limit)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if few := f.few[key]; few > 0 {
		k = min(k, few-1)
	}
	return k
}

// least returns how many devices of the given memory an element needs, of at most n, 0 where that cannot be said.
func (f *forecast) least(key costKey, cost *layout.Stage, memory int64, n int) int {
	return f.once(fmt.Sprint("least", key, memory, n), func() int {
		k, err := layout.Least(*cost, 1, layout.Device{Memory: memory}, n)
		if err != nil {
			return 0
		}
		return k
	})
}

// once keeps what find returned under a name.
func (f *forecast) once(name string, find func() int) int {
	f.mu.Lock()
	f.open()
	k, known := f.fit[name]
	f.mu.Unlock()
	if !known {
		k = find() // which asks for needs
		f.mu.Lock()
		f.fit[name] = k
		f.mu.Unlock()
	}
	return k
}

// tooMany notes that so many elements did not fit a set.
func (f *forecast) tooMany(key costKey, elements int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open()
	if few := f.few[key]; few == 0 || elements < few { // other batches may have come down further
		f.few[key] = elements
	}
}

// devicesOf returns the devices of a pool as the cost model knows them: where nothing but their speeds is known, as
// workers of a processor, the fastest like that of the table.
func devicesOf(pool lend.Pool) []layout.Device {
	rates := ratesOf(pool)
	if known := pool.Capabilities().Layout; known != nil {
		if devices := known(); len(devices) == len(rates) {
			return devices
		}
	}
	return layout.Workers(rates)
}

// some returns those of the devices with these numbers.
func some(all []layout.Device, numbers []int) []layout.Device {
	out := make([]layout.Device, len(numbers))
	for i, n := range numbers {
		out[i] = all[n]
	}
	return out
}
