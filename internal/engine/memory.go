package engine

import (
	"slices"
	"sync"

	"latentbeam/kernels"
	"latentbeam/schemas"
	"latentbeam/stages"
)

// learned is what batches have taught of the memory that they need. A device that runs out of it makes batches
// smaller, then sets wider; what was measured corrects the estimate by which batches are formed. Results do not
// depend on how elements are grouped, so nothing of this shows in them.
type learned struct {
	mu      sync.Mutex
	lessons map[lessonKey]*lesson
	before  map[factKey]lesson // of earlier runs
	stay    map[string]int     // by step: how many blocks stay since elements did not fit beside them
}

type lessonKey struct {
	step  string
	shape schemas.Bucket
}

// lesson is what is known of one shape in one stage.
type lesson struct {
	estimated, measured int64 // of one device, for the batch that needed most in relation to its estimate
	most                int   // elements that fit; 0: as many as estimated
	least               int   // devices that one element needs; 0: as many as estimated
	fails               int   // how often memory ran out
	alone               bool  // even for one element on as many devices as it can have
	limit               int64 // what a batch could use on a device when it ran out
}

// safety is added to a measured need that is below its estimate: the next batch is not quite the same.
const safety = 1.1

// of returns the lesson of a shape, nil where there is none.
func (l *learned) of(step *Step, row *schemas.PromptRow) *lesson {
	key := lessonKey{step.Name, schemas.BucketOf(*row)}
	if s := l.lessons[key]; s != nil {
		return s
	}
	if s, ok := l.recalled(key.fact()); ok {
		return &s
	}
	return nil
}

// open returns the lesson of a shape to write to.
func (l *learned) open(step *Step, row *schemas.PromptRow) *lesson {
	if l.lessons == nil {
		l.lessons = map[lessonKey]*lesson{}
	}
	key := lessonKey{step.Name, schemas.BucketOf(*row)}
	if l.lessons[key] == nil {
		s, _ := l.recalled(key.fact())
		s.fails = 0
		l.lessons[key] = &s
	}
	return l.lessons[key]
}

// shortage is a batch that ran out of memory.
type shortage struct {
	elements, devices int
	widest            int   // devices that it could have
	least             int   // that an element was known to need when they were chosen
	limit             int64 // what it could use on a device
}

// outOfMemory notes a shortage and reports whether there is anything left to try: fewer elements, else more devices
// than an element was known to need.
func (l *learned) outOfMemory(step *Step, row *schemas.PromptRow, o shortage) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.open(step, row)
	s.fails++
	s.limit = o.limit
	switch half := o.elements / 2; {
	case half > 0:
		if s.most == 0 || half < s.most { // another batch may have come down further
			s.most = half
		}
		return true
	case o.devices < o.widest:
		s.least = max(s.least, min(2*o.devices, o.widest))
		return s.least > o.least
	}
	s.alone = true
	return false
}

// measure notes what a batch of n elements held at its fullest on one device, against its estimate.
func (l *learned) measure(step *Step, row *schemas.PromptRow, estimated, measured int64) {
	if estimated <= 0 || measured <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.open(step, row)
	if s.estimated == 0 || float64(measured)/float64(estimated) > float64(s.measured)/float64(s.estimated) {
		s.estimated, s.measured = estimated, measured
	}
}

// outgrow forgets what did not fit where batches may use clearly more by now, because weights gave way, and the
// estimate was corrected since.
func (l *learned) outgrow(step *Step, row *schemas.PromptRow, limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of(step, row)
	if s != nil && s.limit > 0 && s.measured > 0 && float64(limit) > similar*float64(s.limit) {
		s = l.open(step, row)
		s.most, s.least = 0, 0
	}
}

// correct returns an estimate as it is after what was measured.
func (l *learned) correct(step *Step, row *schemas.PromptRow, estimate int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of(step, row)
	if s == nil {
		return estimate
	}
	return s.correct(estimate)
}

// correct returns an estimate as what was measured makes it.
func (s *lesson) correct(estimate int64) int64 {
	if s.estimated <= 0 {
		return estimate
	}
	ratio := float64(s.measured) / float64(s.estimated)
	if ratio < 1 {
		ratio = min(1, safety*ratio)
	}
	return int64(ratio * float64(estimate))
}

// fits returns how many of n elements go into a batch at most.
func (l *learned) fits(step *Step, row *schemas.PromptRow, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.of(step, row); s != nil && s.most > 0 {
		return min(n, s.most)
	}
	return n
}

// devices returns how many devices an element needs, 0 where nothing was learned of that.
func (l *learned) devices(step *Step, row *schemas.PromptRow) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.of(step, row); s != nil {
		return s.least
	}
	return 0
}

// widest returns how many devices a batch of rows like this one can have.
func (f *Station) widest(row *schemas.PromptRow) int {
	if s := f.step.Capabilities().Spread; s != nil && s.Width(row) == 0 {
		return f.engine.Pool.Size()
	}
	return 1
}

// relieve notes that memory ran out and reports whether the batch is worth another try: in parts, else on more
// devices than the least that was known, else beside fewer weights than the staying blocks that it was tried with.
func (f *Station) relieve(live []*stages.Element, devices, least, staying int) bool {
	row := &live[0].Row
	return f.engine.learned.outOfMemory(f.step, row, shortage{elements: len(live), devices: devices,
		widest: f.widest(row), least: least, limit: f.engine.Pool.Memory().Limit}) || f.stream(row, staying)
}

// settleParts settles a batch that is known not to fit, in parts of n elements.
func (f *Station) settleParts(live []*stages.Element, n int, t trial) error {
	for part := range slices.Chunk(live, n) {
		if err := f.settle(part, t); err != nil {
			return err
		}
	}
	return nil
}

// peaks starts measuring the memory of devices, where they can; read returns the most that one held.
func peaks(devices []kernels.Backend) (read func() int64) {
	var all []func() int64
	for _, dev := range devices {
		if peak := dev.Capabilities().Peak; peak != nil {
			peak() // of what was before
			all = append(all, peak)
		}
	}
	return func() (most int64) {
		for _, peak := range all {
			most = max(most, peak())
		}
		return most
	}
}

// measured compares what a batch held with what it was to hold.
func (f *Station) measured(live []*stages.Element, devices int, peak int64) {
	row := &live[0].Row
	if need, err := f.engine.forecast.need(f.key(row), f.step, row, len(live)); err == nil {
		f.engine.learned.measure(f.step, row, shared(need, devices), peak)
		f.engine.learned.outgrow(f.step, row, f.engine.Pool.Memory().Limit)
	}
}
