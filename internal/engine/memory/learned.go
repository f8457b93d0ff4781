package memory

import (
	"sync"

	"latentbeam/schemas"
)

// Learned records the memory that batches needed, by stage and shape. When a device runs out of memory, batches get
// smaller, then sets get wider. Measured peaks correct the estimates from which batches are formed. Results do not
// depend on how elements are grouped, so they do not depend on Learned.
type Learned struct {
	mu      sync.Mutex
	lessons map[lessonKey]*lesson
	before  map[factKey]lesson // of earlier runs
}

type lessonKey struct {
	step  string
	shape schemas.Bucket
}

// lesson holds the measurements for one shape in one stage.
type lesson struct {
	estimated, measured int64 // bytes on one device, of the batch with the largest ratio of measured to estimated
	most                int   // elements that fit; 0: the estimate holds
	least               int   // devices that one element needs; 0: the estimate holds
	fails               int   // number of times that memory ran out
	alone               bool  // memory ran out for one element on all devices that it can have
	limit               int64 // bytes that a batch could use on a device when memory ran out
}

// safety is a factor on a measured need that is below its estimate, because the next batch may need slightly more.
const safety = 1.1

// find returns the lesson of a shape, or nil.
func (l *Learned) find(step string, row *schemas.PromptRow) *lesson {
	key := lessonKey{step, schemas.BucketOf(*row)}
	if s := l.lessons[key]; s != nil {
		return s
	}
	if s, ok := l.recalled(key.fact()); ok {
		return &s
	}
	return nil
}

// findOrAdd returns the lesson of a shape of this run, and adds it if it is missing.
func (l *Learned) findOrAdd(step string, row *schemas.PromptRow) *lesson {
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
	Widest            int   // devices that the batch can have at most
	Least             int   // devices that an element needed, as known when the devices were chosen
	Limit             int64 // bytes that the batch could use on a device
}

// OutOfMemory records a shortage and reports whether another attempt can help: with fewer elements, else on more devices
// than Least.
func (l *Learned) OutOfMemory(step string, row *schemas.PromptRow, o Shortage) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.findOrAdd(step, row)
	s.fails++
	s.limit = o.Limit
	switch half := o.Elements / 2; {
	case half > 0:
		if s.most == 0 || half < s.most { // another batch may have lowered it further
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

// Measure records a batch's peak memory on one device beside its estimate, both in bytes.
func (l *Learned) Measure(step string, row *schemas.PromptRow, estimated, measured int64) {
	if estimated <= 0 || measured <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.findOrAdd(step, row)
	if s.estimated == 0 || float64(measured)/float64(estimated) > float64(s.measured)/float64(s.estimated) {
		s.estimated, s.measured = estimated, measured
	}
}

// Outgrow forgets earlier shortages of a shape if batches may now use clearly more memory (weights were freed) and the
// estimate was corrected by a measurement.
func (l *Learned) Outgrow(step string, row *schemas.PromptRow, limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.find(step, row)
	if s != nil && s.limit > 0 && s.measured > 0 && float64(limit) > similarMemory*float64(s.limit) {
		s = l.findOrAdd(step, row)
		s.most, s.least = 0, 0
	}
}

// Correct returns an estimate, corrected by the measurements for the shape of row.
func (l *Learned) Correct(step string, row *schemas.PromptRow, estimate int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.find(step, row)
	if s == nil {
		return estimate
	}
	return s.correct(estimate)
}

// correct scales an estimate by the largest measured ratio.
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

// Fits returns how many of n elements a batch may have.
func (l *Learned) Fits(step string, row *schemas.PromptRow, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.find(step, row); s != nil && s.most > 0 {
		return min(n, s.most)
	}
	return n
}

// Devices returns how many devices an element needs; 0: unknown.
func (l *Learned) Devices(step string, row *schemas.PromptRow) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.find(step, row); s != nil {
		return s.least
	}
	return 0
}
