package h264

// vector is a motion vector in quarter luma samples.
type vector struct{ x, y int }

func (v vector) add(dx, dy int) vector { return vector{v.x + dx, v.y + dy} }

// searchRange limits the vectors of one macroblock: by the padded reference, the reach of the six-tap filter and the level. min
// and max are whole samples times 4, max inclusive.
type searchRange struct{ min, max vector }

func (r searchRange) holds(v vector) bool {
	return v.x >= r.min.x && v.x <= r.max.x && v.y >= r.min.y && v.y <= r.max.y
}

// maxVectorX is the horizontal limit of clause A.3.1, just below 2048 samples.
const maxVectorX = 2047

// filterReach keeps predictions inside the part of the border that the half-sample filter fills.
const filterReach = 8

func (e *encoder) rangeOf(x, y int) searchRange {
	ref := e.ref[0]
	reach := border - filterReach
	limit := e.maxVectorY - 1
	return searchRange{
		min: vector{4 * max(-16*x-reach, -maxVectorX), 4 * max(-16*y-reach, -limit)},
		max: vector{
			4 * min(ref.width-16*x-16+reach-1, maxVectorX),
			4 * min(ref.height-16*y-16+reach-1, limit),
		},
	}
}

// predictVector returns the median prediction of clause 8.4.1.3 for P_L0_16x16, and the vector of P_Skip
// (clause 8.4.1.1).
func (e *encoder) predictVector(x, y int) (predicted, skip vector) {
	a, b, c := e.neighbour(x-1, y), e.neighbour(x, y-1), e.neighbour(x+1, y-1)
	if c == nil {
		c = e.neighbour(x-1, y-1)
	}
	predicted = medianVector(a, b, c)
	still := func(m *macroblock) bool { return m == nil || m.inter && m.mv == vector{} }
	if !still(a) && !still(b) {
		skip = predicted
	}
	return predicted, skip
}

func medianVector(a, b, c *macroblock) vector {
	if b == nil && c == nil {
		if a == nil {
			return vector{}
		}
		return a.mv
	}
	var mv [3]vector
	inter, only := 0, 0
	for i, m := range []*macroblock{a, b, c} {
		if m != nil && m.inter {
			mv[i] = m.mv
			inter++
			only = i
		}
	}
	if inter == 1 {
		return mv[only]
	}
	return vector{median(mv[0].x, mv[1].x, mv[2].x), median(mv[0].y, mv[1].y, mv[2].y)}
}

func median(a, b, c int) int { return max(min(a, b), min(max(a, b), c)) }

// A search looks for the vector of one macroblock by SAD + lambda * bits.
type search struct {
	e         *encoder
	x, y      int // macroblock
	src       []byte
	stride    int
	limits    searchRange
	predicted vector
	best      vector
	cost      int
}

func (s *search) bits(v vector) int {
	return s.e.lambda * (seLen(v.x-s.predicted.x) + seLen(v.y-s.predicted.y))
}

// tryFull compares at a whole-sample vector.
func (s *search) tryFull(v vector) {
	if !s.limits.holds(v) {
		return
	}
	cost := s.bits(v)
	if cost >= s.cost {
		return
	}
	ref := s.e.ref[0]
	cost += sad16(s.src, s.stride, ref.pix[ref.at(16*s.x+v.x>>2, 16*s.y+v.y>>2):], ref.stride, s.cost-cost)
	if cost < s.cost {
		s.cost, s.best = cost, v
	}
}

// trySub compares at any vector, with the interpolated prediction.
func (s *search) trySub(v vector) {
	if !s.limits.holds(v) {
		return
	}
	cost := s.bits(v)
	if cost >= s.cost {
		return
	}
	e := s.e
	e.interp.luma(&e.cand, 16*s.x, 16*s.y, v)
	cost += sad16(s.src, s.stride, e.cand[:], 16, s.cost-cost)
	if cost < s.cost {
		s.cost, s.best = cost, v
		e.pred = e.cand
	}
}

var (
	hexagon = [6]vector{{-2, 0}, {2, 0}, {-1, -2}, {1, -2}, {-1, 2}, {1, 2}}
	square  = [8]vector{{-1, 0}, {1, 0}, {0, -1}, {0, 1}, {-1, -1}, {1, -1}, {-1, 1}, {1, 1}}
)

// hexagonSteps bounds the walk of the whole-sample search.
const hexagonSteps = 12

// searchVector finds a vector for macroblock (x, y) and leaves its luma prediction in e.pred: candidates
// from the neighbourhood, a hexagon walk, then half and quarter samples.
func (e *encoder) searchVector(x, y int, predicted vector) (vector, int) {
	src := e.src[0]
	s := search{
		e: e, x: x, y: y, src: src.pix[src.at(16*x, 16*y):], stride: src.stride,
		limits: e.rangeOf(x, y), predicted: predicted, cost: 1 << 30,
	}
	s.tryFull(vector{})
	s.tryFull(wholeSamples(predicted))
	for _, m := range []*macroblock{e.neighbour(x-1, y), e.neighbour(x, y-1), &e.prev[y*e.mbWidth+x]} {
		if m != nil && m.inter {
			s.tryFull(wholeSamples(m.mv))
		}
	}
	for i := 0; i < hexagonSteps; i++ {
		centre := s.best
		for _, d := range hexagon {
			s.tryFull(centre.add(4*d.x, 4*d.y))
		}
		if s.best == centre {
			break
		}
	}
	centre := s.best
	for _, d := range square {
		s.tryFull(centre.add(4*d.x, 4*d.y))
	}
	e.interp.luma(&e.pred, 16*x, 16*y, s.best)
	for _, step := range []int{2, 1} {
		centre := s.best
		for _, d := range square {
			s.trySub(centre.add(step*d.x, step*d.y))
		}
	}
	return s.best, s.cost
}

// wholeSamples rounds to the nearest whole sample.
func wholeSamples(v vector) vector { return vector{(v.x + 2) &^ 3, (v.y + 2) &^ 3} }
