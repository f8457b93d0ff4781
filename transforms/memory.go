package transforms

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
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

// factKey is what a lesson is kept under from run to run.
type factKey struct{ stage, shape, rows string }

func (k lessonKey) fact() factKey { return factKey{k.step, k.shape.String(), rowsOf(k.shape)} }

// rowsOf says in words what rows of a size must share to need the same memory; the number of steps changes nothing.
func rowsOf(b schemas.Bucket) string {
	text := strconv.Itoa(b.MaxSequenceLength) + " tokens"
	for _, is := range []struct {
		so   bool
		name string
	}{{b.Guided, "guided"}, {b.Negative, "negative prompt"}, {b.Conditioned, "conditioned"}} {
		if is.so {
			text += ", " + is.name
		}
	}
	if b.Loop > 1 {
		text += fmt.Sprintf(", %d clips", b.Loop)
	}
	return text
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

// recalled returns what earlier runs learned. Some of them did not tell rows of one size apart.
func (l *learned) recalled(key factKey) (lesson, bool) {
	s, ok := l.before[key]
	if !ok {
		key.rows = ""
		s, ok = l.before[key]
	}
	return s, ok
}

// worse returns the lesson of both that expects less of a device.
func (s lesson) worse(o lesson) lesson {
	if o.estimated > 0 && (s.estimated == 0 ||
		float64(o.measured)/float64(o.estimated) > float64(s.measured)/float64(s.estimated)) {
		s.estimated, s.measured = o.estimated, o.measured
	}
	if s.most == 0 || o.most > 0 && o.most < s.most {
		s.most = o.most
	}
	s.least, s.fails, s.limit = max(s.least, o.least), s.fails+o.fails, max(s.limit, o.limit)
	s.alone = s.alone || o.alone
	return s
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
func (f *StageFn) widest(row *schemas.PromptRow) int {
	if s, ok := f.step.Stage.(stages.Spreader); ok && s.Width(row) == 0 {
		return f.engine.Pool.Size()
	}
	return 1
}

// relieve notes that memory ran out and reports whether the batch is worth another try: in parts, else on more
// devices than the least that was known, else beside fewer weights than the staying blocks that it was tried with.
func (f *StageFn) relieve(live []*stages.Element, devices, least, staying int) bool {
	row := &live[0].Row
	return f.engine.learned.outOfMemory(f.step, row, shortage{elements: len(live), devices: devices,
		widest: f.widest(row), least: least, limit: f.engine.Pool.Memory().Limit}) || f.stream(staying)
}

// staying is how many blocks of the stage stay in memory, 0 where none can pass.
func (f *StageFn) staying() int {
	if s, ok := f.step.Stage.(stages.Streamer); ok {
		stay, _ := s.Staying()
		return stay
	}
	return 0
}

// buffers is how many blocks are there beside those that stay, where blocks pass: the one at work and the next.
const buffers = 2

// stream lets half as many blocks be in memory as when so many of them stayed, and reports whether that is fewer: what
// a device holds is exchanged at its next use, and results are the same. Another batch may have seen to it already.
func (f *StageFn) stream(staying int) bool {
	s, ok := f.step.Stage.(stages.Streamer)
	if !ok {
		return false
	}
	f.engine.learned.mu.Lock() // one at a time
	defer f.engine.learned.mu.Unlock()
	now, of := s.Staying()
	if now < staying {
		return true
	}
	there := now
	if now < of {
		there += buffers
	}
	if there <= buffers {
		return false
	}
	stay := max(0, there/2-buffers)
	slog.Info("weights pass through memory: an element does not fit beside them", "stage", f.step.Name, "stay", stay,
		"of", of)
	s.Stream(stay)
	if f.engine.learned.stay == nil {
		f.engine.learned.stay = map[string]int{}
	}
	f.engine.learned.stay[f.step.Name] = stay
	return true
}

// stays is what other processes are to do likewise, nil for nothing.
func (l *learned) stays(step string) *int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stay, ok := l.stay[step]; ok {
		return &stay
	}
	return nil
}

// settleParts settles a batch that is known not to fit, in parts of n elements.
func (f *StageFn) settleParts(live []*stages.Element, n, cap int) error {
	for part := range slices.Chunk(live, n) {
		if err := f.settle(part, cap); err != nil {
			return err
		}
	}
	return nil
}

// peaks starts measuring the memory of devices, where they can; read returns the most that one held.
func peaks(devices []kernels.Backend) (read func() int64) {
	var meters []kernels.Meter
	for _, dev := range devices {
		if m, ok := kernels.As[kernels.Meter](dev); ok {
			m.Peak() // of what was before
			meters = append(meters, m)
		}
	}
	return func() (most int64) {
		for _, m := range meters {
			most = max(most, m.Peak())
		}
		return most
	}
}

// measured compares what a batch held with what it was to hold.
func (f *StageFn) measured(live []*stages.Element, devices int, peak int64) {
	row := &live[0].Row
	if need, err := f.engine.forecast.need(f.key(row), f.step, row, len(live)); err == nil {
		f.engine.learned.measure(f.step, row, shared(need, devices), peak)
	}
}

// MemoryFact is what a run learned of the memory that batches of one shape need in one stage.
type MemoryFact struct {
	Stage     string `json:"stage"`
	Shape     string `json:"shape"`
	Rows      string `json:"rows,omitempty"`            // which of that shape, see rowsOf; "": any
	Estimated int64  `json:"estimated_bytes,omitempty"` // of one device, for the batch with the largest
	Measured  int64  `json:"measured_bytes,omitempty"`  // excess of this over that
	Fails     int    `json:"out_of_memory,omitempty"`   // batches that did not fit
	Most      int    `json:"most_elements,omitempty"`   // that a batch has since then
	Least     int    `json:"least_devices,omitempty"`   // that an element has since then
	Limit     int64  `json:"limit_bytes,omitempty"`     // that a batch could use on a device
	Alone     bool   `json:"one_did_not_fit,omitempty"` // even with all the devices that it could have
}

// Of reports whether the fact is about a stage and rows like row.
func (f MemoryFact) Of(stage string, row schemas.PromptRow) bool {
	b := schemas.BucketOf(row)
	return f.Stage == stage && f.Shape == b.String() && (f.Rows == "" || f.Rows == rowsOf(b))
}

// fact is the lesson as a run tells it.
func (s *lesson) fact(key factKey) MemoryFact {
	return MemoryFact{Stage: key.stage, Shape: key.shape, Rows: key.rows, Estimated: s.estimated, Measured: s.measured,
		Fails: s.fails, Most: s.most, Least: s.least, Limit: s.limit, Alone: s.alone}
}

// MemoryFacts returns what was learned, in this run and before, in the order of stages and shapes.
func (e *Engine) MemoryFacts() (facts []MemoryFact) {
	l := &e.learned
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := maps.Clone(l.before) // what this run had nothing to do with
	for key := range l.lessons {
		delete(kept, key.fact())
		delete(kept, factKey{key.step, key.shape.String(), ""})
	}
	if kept == nil {
		kept = map[factKey]lesson{}
	}
	for key, s := range l.lessons {
		if other, ok := kept[key.fact()]; ok { // with another number of steps
			kept[key.fact()] = s.worse(other)
		} else {
			kept[key.fact()] = *s
		}
	}
	for key, s := range kept {
		facts = append(facts, s.fact(key))
	}
	slices.SortFunc(facts, func(a, b MemoryFact) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Shape, b.Shape), cmp.Compare(a.Rows, b.Rows))
	})
	return facts
}

// tight is how much more than what it had an element is taken to need that did not fit.
const tight = 1.25

// Correct returns an estimate of n elements as the run that left the fact would have made it at its end.
func (f MemoryFact) Correct(n int, estimate int64) int64 {
	l := lesson{estimated: f.Estimated, measured: f.Measured}
	if estimate = l.correct(estimate); f.Alone {
		estimate = max(estimate, int64(tight*float64(f.Limit)*float64(n)))
	}
	return estimate
}

// similar is how much more memory devices may have and still count as those of before: what is free varies.
const similar = 1.1

// Recall takes over what an earlier run of the same numeric class learned. What did not fit counts only for
// devices that have no more memory now.
func (e *Engine) Recall(facts []MemoryFact) {
	limit := e.Pool.Memory().Limit
	l := &e.learned
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = map[factKey]lesson{}
	for _, f := range facts {
		key := factKey{f.Stage, f.Shape, f.Rows}
		s := lesson{estimated: max(0, f.Estimated), measured: max(0, f.Measured), alone: f.Alone, limit: f.Limit}
		if float64(limit) <= similar*float64(f.Limit) {
			s.most, s.least = max(0, f.Most), max(0, f.Least)
		}
		if other, twice := l.before[key]; twice { // runs of earlier versions did not tell all rows apart
			s = s.worse(other)
		}
		l.before[key] = s
	}
}
