package memory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"latentbeam/schemas"
)

// factKey is the key of a lesson that is passed from run to run.
type factKey struct{ stage, shape, rows string }

func (k lessonKey) fact() factKey { return factKey{k.step, k.shape.String(), rowsOf(k.shape)} }

// rowsOf describes in words the parameters that change a row's memory beside its size. The number of steps does not change it.
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

// recalled returns the lesson of earlier runs. Old releases stored one lesson for all rows of a size.
func (l *Learned) recalled(key factKey) (lesson, bool) {
	s, ok := l.before[key]
	if !ok {
		key.rows = ""
		s, ok = l.before[key]
	}
	return s, ok
}

// worse merges two lessons: of each value it retains the more pessimistic one.
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

// Fact is a lesson in the form that a run passes to later runs: the memory that batches of one shape need in one stage.
type Fact struct {
	Stage     string `json:"stage"`
	Shape     string `json:"shape"`
	Rows      string `json:"rows,omitempty"`            // rows of the shape, see rowsOf; "": all
	Estimated int64  `json:"estimated_bytes,omitempty"` // bytes on one device, of the batch with the largest
	Measured  int64  `json:"measured_bytes,omitempty"`  // ratio of measured to estimated
	Fails     int    `json:"out_of_memory,omitempty"`   // batches that did not fit
	Most      int    `json:"most_elements,omitempty"`   // elements of a batch since then
	Least     int    `json:"least_devices,omitempty"`   // devices of an element since then
	Limit     int64  `json:"limit_bytes,omitempty"`     // bytes that a batch could use on a device
	Alone     bool   `json:"one_did_not_fit,omitempty"` // not even on all devices that it could have
}

// Of reports whether the fact is about a stage and rows like row.
func (f Fact) Of(stage string, row schemas.PromptRow) bool {
	b := schemas.BucketOf(row)
	return f.Stage == stage && f.Shape == b.String() && (f.Rows == "" || f.Rows == rowsOf(b))
}

// fact converts the lesson to a Fact.
func (s *lesson) fact(key factKey) Fact {
	return Fact{Stage: key.stage, Shape: key.shape, Rows: key.rows, Estimated: s.estimated, Measured: s.measured,
		Fails: s.fails, Most: s.most, Least: s.least, Limit: s.limit, Alone: s.alone}
}

// Facts returns the facts of this run and of earlier runs, sorted by stage and shape.
func (l *Learned) Facts() (facts []Fact) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := maps.Clone(l.before) // lessons of shapes that this run did not compute
	for key := range l.lessons {
		delete(kept, key.fact())
		delete(kept, factKey{key.step, key.shape.String(), ""})
	}
	if kept == nil {
		kept = map[factKey]lesson{}
	}
	for key, s := range l.lessons {
		if other, ok := kept[key.fact()]; ok { // same fact, another number of steps
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

// shortageFactor times the memory that it had is the assumed need of an element that did not fit.
const shortageFactor = 1.25

// Correct returns an estimate for n elements, corrected by the fact.
func (f Fact) Correct(n int, estimate int64) int64 {
	l := lesson{estimated: f.Estimated, measured: f.Measured}
	if estimate = l.correct(estimate); f.Alone {
		estimate = max(estimate, int64(shortageFactor*float64(f.Limit)*float64(n)))
	}
	return estimate
}

// similarMemory is the factor up to which devices count as having the same memory as before, because free memory varies.
const similarMemory = 1.1

// Recall loads the facts of an earlier run of the same numeric class. limit is the memory that a batch can use on each
// device now. Earlier shortages count only if limit has not grown since.
func (l *Learned) Recall(facts []Fact, limit int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = map[factKey]lesson{}
	for _, f := range facts {
		key := factKey{f.Stage, f.Shape, f.Rows}
		s := lesson{estimated: max(0, f.Estimated), measured: max(0, f.Measured), alone: f.Alone, limit: f.Limit}
		if float64(limit) <= similarMemory*float64(f.Limit) {
			s.most, s.least = max(0, f.Most), max(0, f.Least)
		}
		if other, twice := l.before[key]; twice { // runs of old releases may store several
			s = s.worse(other)
		}
		l.before[key] = s
	}
}
