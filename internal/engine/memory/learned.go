package memory

import (
	"sync"

	"latentbeam/schemas"
)

// Learned is what batches have taught of the memory that they need. A device that runs out of it makes batches
// smaller, then sets wider; what was measured corrects the estimate by which batches are formed. Results do not
// depend on how elements are grouped, so nothing of this shows in them.
type Learned struct {
	mu      sync.Mutex
	lessons map[lessonKey]*lesson
	before  map[factKey]lesson // of earlier runs
}

type lessonKey struct {
	step  string
	shape schemas.Bucket
}

// lesson is what is known of one shape in one stage.
type lesson struct {
	estimated, measured int64 // of one device, for the batch that needed most in relation to its estimate
	most                int   // elements that fit; 0: as many as estimated
	least               int   // Devices that one element needs; 0: as many as estimated
	fails               int   // how often memory ran out
	alone               bool  // even for one element on as many devices as it can have
	limit               int64 // what a batch could use on a device when it ran out
}

// safety is added to a measured need that is below its estimate: the next batch is not quite the same.
const safety = 1.1

// of returns the lesson of a shape, nil where there is none.
func (l *Learned) of(step string, row *schemas.PromptRow) *lesson {
	key := lessonKey{step, schemas.BucketOf(*row)}
	if s := l.lessons[key]; s != nil {
		return s
	}
	if s, ok := l.recalled(key.fact()); ok {
		return &s
	}
	return nil
}

// open returns the lesson of a shape to write to.
func (l *Learned) open(step string, row *schemas.PromptRow) *lesson {
	if l.lessons == nil {
		l.lessons = map[lessonKey]*lesson{}
	}
	key := lessonKey{step, schemas.BucketOf(*row)}
	if l.lessons[key] == nil {
		s, _ := l.recalled(key.fact())
		s.fails = 0
		l.lessons[key] = &s
	}
	return l.lessons[key]
}

// Shortage is a batch that ran out of memory.
type Shortage struct {
	Elements, Devices int
	Widest            int   // devices that it could have
	Least             int   // that an element was known to need when they were chosen
	Limit             int64 // what it could use on a device
}

// OutOfMemory notes a shortage and reports whether there is anything left to try: fewer elements, else more devices
// than an element was known to need.
func (l *Learned) OutOfMemory(step string, row *schemas.PromptRow, o Shortage) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.open(step, row)
	s.fails++
	s.limit = o.Limit
	switch half := o.Elements / 2; {
	case half > 0:
		if s.most == 0 || half < s.most { // another batch may have come down further
			s.most = half
		}
		return true
	case o.Devices < o.Widest:
		s.least = max(s.least, min(2*o.Devices, o.Widest))
		return s.least > o.Least
	}
	s.alone = true
	return false
}

// Measure notes what a batch of n elements held at its fullest on one device, against its estimate.
func (l *Learned) Measure(step string, row *schemas.PromptRow, estimated, measured int64) {
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

// Outgrow forgets what did not fit where batches may use clearly more by now, because weights gave way, and the
// estimate was corrected since.
func (l *Learned) Outgrow(step string, row *schemas.PromptRow, limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of(step, row)
	if s != nil && s.limit > 0 && s.measured > 0 && float64(limit) > similar*float64(s.limit) {
		s = l.open(step, row)
		s.most, s.least = 0, 0
	}
}

// Correct returns an estimate as it is after what was measured.
func (l *Learned) Correct(step string, row *schemas.PromptRow, estimate int64) int64 {
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

// Fits returns how many of n elements go into a batch at most.
func (l *Learned) Fits(step string, row *schemas.PromptRow, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.of(step, row); s != nil && s.most > 0 {
		return min(n, s.most)
	}
	return n
}

// Devices returns how many devices an element needs, 0 where nothing was learned of that.
func (l *Learned) Devices(step string, row *schemas.PromptRow) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.of(step, row); s != nil {
		return s.least
	}
	return 0
}
