package memory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"latentbeam/schemas"
)

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

// recalled returns what earlier runs learned. Some of them did not tell rows of one size apart.
func (l *Learned) recalled(key factKey) (lesson, bool) {
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

// Fact is what a run learned of the memory that batches of one shape need in one stage.
type Fact struct {
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
func (f Fact) Of(stage string, row schemas.PromptRow) bool {
	b := schemas.BucketOf(row)
	return f.Stage == stage && f.Shape == b.String() && (f.Rows == "" || f.Rows == rowsOf(b))
}

// fact is the lesson as a run tells it.
func (s *lesson) fact(key factKey) Fact {
	return Fact{Stage: key.stage, Shape: key.shape, Rows: key.rows, Estimated: s.estimated, Measured: s.measured,
		Fails: s.fails, Most: s.most, Least: s.least, Limit: s.limit, Alone: s.alone}
}

// Facts returns what was learned, in this run and before, in the order of stages and shapes.
func (l *Learned) Facts() (facts []Fact) {
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
	slices.SortFunc(facts, func(a, b Fact) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Shape, b.Shape), cmp.Compare(a.Rows, b.Rows))
	})
	return facts
}

// tight is how much more than what it had an element is taken to need that did not fit.
const tight = 1.25

// Correct returns an estimate of n elements as the run that left the fact would have made it at its end.
func (f Fact) Correct(n int, estimate int64) int64 {
	l := lesson{estimated: f.Estimated, measured: f.Measured}
	if estimate = l.correct(estimate); f.Alone {
		estimate = max(estimate, int64(tight*float64(f.Limit)*float64(n)))
	}
	return estimate
}

// similar is how much more memory devices may have and still count as those of before: what is free varies.
const similar = 1.1

// Recall takes over what an earlier run of the same numeric class learned. What did not fit counts only for
// devices that have no more memory now: a batch can use limit on each.
func (l *Learned) Recall(facts []Fact, limit int64) {
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
