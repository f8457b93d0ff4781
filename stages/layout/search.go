package layout

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"latentbeam/stages/cost"
	"latentbeam/stages/sequence"
)

// maxElements limits the numbers of elements that are tried for a set.
const maxElements = 16

// Query describes the job that a layout is searched for.
type Query struct {
	Stages     []cost.Estimate
	Devices    []DeviceModel
	Elements   int              // elements to compute, all of one shape
	MaxBatch   int              // most elements of a set; 0: any
	AtOnce     int              // elements that every set takes, if that is fixed; 0: any up to MaxBatch
	Placements []cost.Placement // placement of the weights, if that is fixed; nil: see Arrange
	// Width, with AtOnce, is the width of the sets if that is fixed; 0: the fastest.
	Width int

	sets map[string]evaluated // cache of evaluated sets
}

// Candidate is one layout and its predicted cost.
type Candidate struct {
	Width    int // devices in a set; some sets have more if the number of devices is not a multiple
	Elements int // elements that a set takes at once
	Sets     []Set
	// Tail is the number of last elements that all devices compute together as one batch, with an even share for each device.
	Tail    int
	Seconds float64 // until all elements are computed
}

// Set is one worker set of a candidate.
type Set struct {
	Devices []int   // indices
	Forward Forward // one step with Elements elements
	Batch   float64 // seconds of a batch in all stages
	Memory  []MemoryUse
}

// estimate and sharing add the methods of this package to cost.Estimate and cost.Split.
type (
	estimate cost.Estimate
	sharing  cost.Split
)

// Outcome is the result of a search.
type Outcome struct {
	Best     Candidate
	Fit      []Candidate     // the best candidate of every width, fastest first
	Rejected []cost.Rejected // widths that do not fit, and other partitions
	Least    int             // the smallest set that fits one element
	// Placements has the placement of the weights of every stage.
	Placements []cost.Placement
}

// Search finds the fastest layout. Among equal layouts the narrower set and the smaller batch win. The error is an *Infeasible
// if no layout fits.
func Search(q Query) (Outcome, error) {
	if err := q.check(); err != nil {
		return Outcome{}, err
	}
	if q.Placements == nil {
		q.Placements, _ = Arrange(q.Stages, q.Devices, q.Elements)
	}
	q.Stages = placeAll(q.Stages, q.Placements)
	var r Outcome
	var fit []Candidate
	var closest *Infeasible
	for _, width := range q.widths() {
		best, why, err := q.best(width)
		switch {
		case err != nil:
			return r, err
		case why != nil:
			r.Rejected = append(r.Rejected, cost.Rejected{What: Sets(width, 1), Why: why.short()})
			closest = why // wider sets come closer to fitting
		default:
			fit = append(fit, best)
		}
	}
	if len(fit) == 0 {
		return r, q.fix(closest)
	}
	r.Least = fit[0].Width
	slices.SortStableFunc(fit, func(a, b Candidate) int {
		if nearlyEqual(a.Seconds, b.Seconds) {
			return cmp.Or(cmp.Compare(a.Width, b.Width), cmp.Compare(a.Elements, b.Elements))
		}
		return cmp.Compare(a.Seconds, b.Seconds)
	})
	r.Best, r.Fit, r.Placements = fit[0], fit, q.Placements
	if q.Width > 0 {
		if c, why, err := q.candidate(q.Width, max(1, q.AtOnce)); err != nil {
			return r, err
		} else if why == nil {
			r.Best = c
		}
	}
	return r, q.others(&r)
}

// Sets describes the width of sets and their number of elements.
func Sets(width, elements int) string {
	plural := "s"
	if elements == 1 {
		plural = ""
	}
	return fmt.Sprintf("sets of %d, %d element%s at once", width, elements, plural)
}

// Slower describes how much slower or faster time a is than time b.
func Slower(a, b float64) string {
	switch {
	case nearlyEqual(a, b):
		return "no faster"
	case a < b:
		return fmt.Sprintf("%.1f%% faster", 100*(b/a-1))
	case a > 2*b:
		return fmt.Sprintf("%.1f times as long", a/b)
	}
	return fmt.Sprintf("%.1f%% slower", 100*(a/b-1))
}

// others adds the partitions that the best layout does not use, if its sets exchange data.
func (q *Query) others(r *Outcome) error {
	split := q.split()
	if split == nil || !r.Best.Sets[0].Forward.Plan.Moves() {
		return nil
	}
	set := r.Best.Sets[0]
	var devices []DeviceModel
	for _, i := range set.Devices {
		devices = append(devices, q.Devices[i])
	}
	for _, kind := range partitions {
		if kind == set.Forward.Plan.Partition {
			continue
		}
		other := *split
		other.Partitions = []sequence.Partition{kind}
		f, err := step(other, r.Best.Elements, devices)
		if err != nil {
			return err
		}
		why := fmt.Sprintf("%s a step, %.1f%% waste, %s sent",
			Slower(f.Seconds(), set.Forward.Seconds()), 100*max(0, f.Waste), cost.Bytes(f.Sent))
		if len(split.Partitions) == 1 {
			why = "not asked for; " + why
		}
		r.Rejected = append(r.Rejected, cost.Rejected{What: "partition " + kind.String(), Why: why})
	}
	return nil
}

// widths returns the widths to try. If several widths give the same number of sets, it returns the widest.
func (q *Query) widths() (out []int) {
	if w := q.width(); w > 0 {
		return []int{w}
	}
	n := len(q.Devices)
	for width := 1; width <= n; width++ {
		if width < n && n/width == n/(width+1) || q.split() == nil && width > 1 {
			continue
		}
		out = append(out, width)
	}
	return out
}

// nearlyEqual reports whether two predictions are equal within their accuracy.
func nearlyEqual(a, b float64) bool { return math.Abs(a-b) <= 0.001*min(a, b) }

func (q *Query) check() error {
	if len(q.Devices) == 0 {
		return fmt.Errorf("choose a layout: there is no device")
	}
	if w := q.width(); w > len(q.Devices) {
		return &Infeasible{
			Reason: fmt.Sprintf("a set of %d devices is asked for and there are %d", w, len(q.Devices)), Width: w,
			Fix: fmt.Sprintf("what would fit: sequence_parallel: auto, or at most %d", len(q.Devices))}
	}
	q.Elements = max(1, q.Elements)
	return nil
}

// split returns the stage that can be shared, or nil.
func (q *Query) split() *cost.Split {
	for _, s := range q.Stages {
		if s.Split != nil {
			return s.Split
		}
	}
	return nil
}

// width returns the required number of devices of a set, 0 for any.
func (q *Query) width() int {
	if s := q.split(); s != nil {
		return s.Width
	}
	return 0
}

// best returns the best candidate of a width, or why one element does not fit a set.
func (q *Query) best(width int) (best Candidate, why *Infeasible, err error) {
	limit := maxElements
	if q.MaxBatch > 0 {
		limit = min(limit, q.MaxBatch)
	}
	if q.split() == nil {
		limit = 1
	}
	first := 1
	if q.AtOnce > 0 {
		first, limit = min(q.AtOnce, q.Elements), q.AtOnce
	}
	for k := first; k <= min(limit, q.Elements); k++ {
		c, reason, err := q.candidate(width, k)
		if err != nil {
			return best, nil, err
		}
		if reason != nil {
			if k == first {
				return best, reason, nil
			}
			break // more elements need more memory
		}
		if best.Width == 0 || c.Seconds < best.Seconds && !nearlyEqual(c.Seconds, best.Seconds) {
			best = c
		}
	}
	return best, nil, nil
}

// candidate evaluates sets of the width with k elements each.
func (q *Query) candidate(width, k int) (Candidate, *Infeasible, error) {
	c := Candidate{Width: width, Elements: k}
	n := len(q.Devices) / width
	busy := len(q.Devices)
	if q.width() > 0 || q.Width > 0 { // a fixed width is kept, and remaining devices stay idle
		busy = n * width
	}
	shares, err := sequence.Cut(busy, sequence.Equal(n))
	if err != nil {
		return c, nil, err
	}
	times := make([]float64, n)
	for i, share := range shares {
		set, reason, err := q.set(share, k)
		if err != nil || reason != nil {
			return c, reason, err
		}
		c.Sets = append(c.Sets, set)
		times[i] = set.Batch
	}
	batches := (q.Elements + k - 1) / k
	c.Seconds = makespan(times, batches)
	return c, nil, q.tail(&c, times, batches)
}

// tail checks whether the last batches finish sooner on all devices together.
func (q *Query) tail(c *Candidate, times []float64, batches int) error {
	if len(times) == 1 || q.width() > 0 || q.Width > 0 || q.split() == nil {
		return nil
	}
	for last := 1; last <= min(batches-1, len(times)); last++ {
		elements := min(q.Elements, last*c.Elements)
		if elements > maxElements {
			break
		}
		all, reason, err := q.set(sequence.Range{Hi: len(q.Devices)}, elements)
		if err != nil || reason != nil {
			return err
		}
		if s := makespan(times, batches-last) + all.Batch; s < c.Seconds && !nearlyEqual(s, c.Seconds) {
			c.Seconds, c.Tail = s, elements
		}
	}
	return nil
}
