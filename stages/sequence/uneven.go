package sequence

import "slices"

// The speeds decide how many columns and frames a rank gets, to a column and to a part of a frame. Which ones it gets is free, and
// decides how much is sent: a rank need not send data for which it has both the column and the frame. Ranks in order along the
// flattened axis send little on average. But a rank whose columns are in two elements sends much, and all ranks wait for the
// busiest. So several orders are tried, and the one whose busiest rank sends least is chosen.

// maxTries limits the orders that are tried, as ranks times orders, because all ranks must compute the plan quickly.
const maxTries = 512

// uneven finds the plan whose busiest rank sends least. For each way to form runs of ranks it moves remaining frames from
// element to element as long as that helps.
func (p *Plan) uneven(w weights) {
	fair := longest(w.cut(p.Shape.Batch * p.Shape.Positions))
	tries := max(1, maxTries/p.Ranks)
	natural := p.natural(w)
	var best *Plan
	var least score
	for _, runs := range p.homes(w) {
		if best != nil && (least.largest == 0 || tries <= 0) {
			break
		}
		here := p.divided(w, runs, natural)
		if best != nil && maxColumns(here) > fair {
			continue
		}
		left, now := natural, here.score()
		for improved := true; improved && now.largest > 0; {
			improved = false
			for _, next := range neighbours(left, p.Shape.Frames) {
				if tries--; tries < 0 {
					break
				}
				other := p.divided(w, runs, next)
				if s := other.score(); s.less(now) {
					here, now, left, improved = other, s, next, true
					break
				}
			}
		}
		if best == nil || now.less(least) {
			best, least = here, now
		}
	}
	*p = *best
}

// divided returns p divided by these runs and remaining frames.
func (p *Plan) divided(w weights, runs []Range, left []int) *Plan {
	q := *p
	q.share(w, runs, left)
	return &q
}

// score is how much the busiest rank and all ranks together send in a pair of blocks.
type score struct{ largest, total int64 }

func (a score) less(b score) bool {
	return a.largest < b.largest || a.largest == b.largest && a.total < b.total
}

func (p *Plan) score() (s score) {
	for _, t := range p.Sent() {
		s.largest, s.total = max(s.largest, t.Total()), s.total+t.Total()
	}
	return s
}

func longest(ranges []Range) (n int) {
	for _, r := range ranges {
		n = max(n, r.Len())
	}
	return n
}

func maxColumns(p *Plan) (n int) {
	for r := range p.Ranks {
		n = max(n, p.ColumnSlots(r))
	}
	return n
}

// A run is a range of ranks [Lo, Hi) that share each element of their part of the columns: all of them have columns of all
// these elements.

// singles returns runs of one rank each.
func singles(ranks int) []Range {
	out := make([]Range, ranks)
	for r := range out {
		out[r] = Range{r, r + 1}
	}
	return out
}

// homes returns ways to form runs: ranks that start in one element, ranks that end in one element, and ranks with most of their
// columns in one element.
func (p *Plan) homes(w weights) (ways [][]Range) {
	columns := w.cut(p.Shape.Batch * p.Shape.Positions)
	ways = append(ways, singles(p.Ranks))
	if p.Shape.Batch == 1 || p.Ranks <= 2 {
		return ways
	}
	for _, at := range []func(Range) int{
		func(r Range) int { return r.Lo },
		func(r Range) int { return max(r.Lo, r.Hi-1) },
		func(r Range) int { return (r.Lo + r.Hi) / 2 },
	} {
		var runs []Range
		for r, c := range columns {
			last := len(runs) - 1
			if last >= 0 && at(columns[runs[last].Lo])/p.Shape.Positions == at(c)/p.Shape.Positions {
				runs[last].Hi = r + 1
			} else {
				runs = append(runs, Range{r, r + 1})
			}
		}
		if !slices.ContainsFunc(ways, func(o []Range) bool { return slices.Equal(o, runs) }) {
			ways = append(ways, runs)
		}
	}
	return ways
}

// natural returns how many frames of each element remain if every rank takes its whole frames where its columns are.
func (p *Plan) natural(w weights) []int {
	s := p.Shape
	left := make([]int, s.Batch)
	next := 0
	for r := range p.Ranks {
		lo := w.floor(s.Batch*s.Frames, w[r]) // floor(a) + floor(b) <= floor(a+b): runs never overlap
		for ; next < lo; next++ {
			left[next/s.Frames]++
		}
		next += w.floor(s.Batch*s.Frames, w[r+1]-w[r])
	}
	for ; next < s.Batch*s.Frames; next++ {
		left[next/s.Frames]++
	}
	return left
}

// neighbours returns the variants of left in which one element has one remaining frame less and an adjacent element one more.
func neighbours(left []int, frames int) (out [][]int) {
	for i := range left {
		for _, j := range []int{i - 1, i + 1} {
			if j >= 0 && j < len(left) && left[i] > 0 && left[j] < frames {
				next := slices.Clone(left)
				next[i]--
				next[j]++
				out = append(out, next)
			}
		}
	}
	return out
}

// share assigns everything: columns by runs, and to each rank as many whole frames as it is entitled to, in order along the
// flattened axis, without the last left[e] frames of each element e, which are divided into pieces.
func (p *Plan) share(w weights, runs []Range, left []int) {
	p.shareColumns(w, runs)
	s := p.Shape
	p.frames, p.left = nil, nil
	for e, n := range left {
		for f := s.Frames - n; f < s.Frames; f++ {
			p.left = append(p.left, e*s.Frames+f)
		}
	}
	element, frame := 0, 0
	for r := range p.Ranks {
		n := w.floor(s.Batch*s.Frames, w[r+1]-w[r])
		var mine []ElementRange
		for at := 0; at < n; {
			k := min(n-at, s.Frames-left[element]-frame)
			if k == 0 {
				element, frame = element+1, 0
				continue
			}
			mine = append(mine, ElementRange{element, Range{frame, frame + k}, at})
			at, frame = at+k, frame+k
		}
		p.frames = append(p.frames, mine)
	}
	p.sharePieces(w)
}

// shareColumns gives every run its part of the flattened columns, and in each element of the run every rank its share. It takes
// into account what a rank got of earlier elements, so that its total is fair.
func (p *Plan) shareColumns(w weights, runs []Range) {
	s := p.Shape
	p.columns = make([][]ElementRange, p.Ranks)
	for _, run := range runs {
		own := make(weights, 0, run.Len()+1)
		for r := run.Lo; r <= run.Hi; r++ {
			own = append(own, w[r]-w[run.Lo])
		}
		all := Range{w.ceil(s.Batch*s.Positions, w[run.Lo]), w.ceil(s.Batch*s.Positions, w[run.Hi])}
		before, had := 0, make([]Range, run.Len())
		for _, part := range spans(all, s.Positions) {
			before += part.Len()
			now, lo := own.cut(before), part.Lo
			for i := range now {
				hi := min(part.Hi, lo+max(0, now[i].Len()-had[i].Len()))
				if i == len(now)-1 {
					hi = part.Hi
				}
				if r := run.Lo + i; hi > lo {
					p.columns[r] = append(p.columns[r], ElementRange{part.Element, Range{lo, hi}, slots(p.columns[r])})
				}
				lo = hi
			}
			had = now
		}
	}
}
