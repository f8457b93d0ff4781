package cpu

import "unsafe"

const (
	// stageTerms is how many terms are added in one chain before their sum is added to the stages before. It
	// is part of the order of additions and so of every class. A panel of 64 columns of it fills an eighth of
	// a second cache of 1 MiB.
	stageTerms = 512
	// batchTerms is how many terms of neighbouring stages are packed together, so that the sums of a few rows go
	// through all of them while they are in the first cache. It changes no bit.
	batchTerms = 640

	groupColumns = 64  // columns that are computed together; the last group may have up to groupWidest
	groupWidest  = 80  // five vectors of AVX-512: for 72 columns
	epilogueRows = 48  // rows that are finished while they are still in the first cache
	tiledRows    = 96  // the same with tiles, whose sums are in the second cache
	askBefore    = 144 // rows before the end of a stage when the next panel is asked for: late, to find it near

	// strideTrap: rows this far apart, or a multiple, share sets of the first cache, which has 64 sets of 8
	// lines: six rows and the panel then evict each other (measured: 15 % slower, 50 % with AVX2).
	strideTrap = 2048
)

// stage is the part of a product that is added in one chain: blocks of k terms, which are count elements of
// a column of B; where apart is 1 each block is a chain of its own. at is where its blocks begin in the lists of
// the gemm.
type stage struct{ first, blocks, k, count, at, apart int }

// strip is rows of A: runs of rows lda bytes apart, the runs jump bytes apart. It begins at row skip.
type strip struct {
	a                    unsafe.Pointer
	run, lda, jump, skip int
}

// gemm is one product with its epilogue: Linear, or the taps of Conv. It is filled anew for each call and
// keeps its lists.
type gemm struct {
	tier    *tier
	dot     dot
	n       int // columns
	depth   int // terms of all stages
	stages  []stage
	closed  int            // stages that take no more blocks
	idle    int            // the first stages, of which A is zeros: their sums are left out
	borders uint64         // hashBorders of the parts
	offs    []int64        // bytes from a row of A to each block
	from    []int          // element of a column of B where each block begins
	packed  unsafe.Pointer // B, all stages of all groups; nil: packed stage by stage from w
	w       packing        // where the elements of column 0 of B are stored
	e       epilogue

	a        rows  // Linear: the other operand,
	strip    strip // where it is read,
	step     int   // how many rows a task has,
	together int   // and how many groups of columns
}

// reset makes g a product without terms.
func (g *gemm) reset(t *tier, d dot, n int) {
	*g = gemm{tier: t, dot: d, n: n, stages: g.stages[:0], offs: g.offs[:0], from: g.from[:0]}
}

// block adds count elements of each column of B, from the given one on, times what lies offset bytes from
// the row of A: to the last stage, where its blocks are as long and there is room, else as a new one. A chain that
// would have to end may go on as blocks apart.
func (g *gemm) block(from, count, offset int) {
	k := g.dot.terms(count)
	var last *stage
	if n := len(g.stages); n > 0 && g.stages[n-1].count == count {
		last = &g.stages[n-1]
	}
	switch {
	case last != nil && len(g.stages) > g.closed && last.apart == 0 && (last.blocks+1)*k <= g.dot.stage(stageTerms):
		last.blocks++
	case last != nil && g.tier.apart && (last.apart == 1 || last.blocks == 1) && (last.blocks+1)*k <= g.dot.stage(batchTerms):
		last.blocks, last.apart = last.blocks+1, 1
	default:
		g.stages = append(g.stages, stage{first: g.depth, blocks: 1, k: k, count: count, at: len(g.offs)})
	}
	g.depth += k
	g.offs, g.from = append(g.offs, int64(offset)), append(g.from, from)
}

// stagesOf returns how many stages have all of their blocks among the first so many.
func (g *gemm) stagesOf(blocks int) int {
	n := 0
	for n < len(g.stages) && g.stages[n].at+g.stages[n].blocks <= blocks {
		n++
	}
	return n
}

// span adds count elements that lie side by side on both sides, in stages of their own.
func (g *gemm) span(from, count, offset int) {
	step := stageTerms * g.dot.multiple()
	for done := 0; done < count; done += step {
		g.block(from+done, min(step, count-done), offset+done*4/g.dot.perTerm())
	}
}

// parts adds a sum of count elements whose parts begin at 0 and at the given borders, each in stages of its
// own.
func (g *gemm) parts(count int, borders []int) {
	g.borders = hashBorders(borders)
	from := 0
	for i := range len(borders) + 1 {
		end := count
		if i < len(borders) {
			end = borders[i]
		}
		g.closed = len(g.stages)
		g.span(from, end-from, from*4/g.dot.perTerm())
		from = end
	}
}

// hashBorders tells apart how sums are divided: FNV-1a of where the parts begin, behind the first.
func hashBorders(borders []int) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, b := range borders {
		h = (h ^ uint64(b)) * prime
	}
	return h
}

// groups returns how many groups of columns there are.
func (g *gemm) groups() int { return max(1, (g.n-groupWidest+groupColumns-1)/groupColumns+1) }

// group returns the first column and the size of group i.
func (g *gemm) group(i int) (first, cols int) {
	first, cols = i*groupColumns, g.n-i*groupColumns
	if cols > groupWidest {
		cols = groupColumns
	}
	return first, cols
}

// batch returns the end of the stages from i on that are computed together.
func (g *gemm) batch(i int) int {
	terms := 0
	for j := i; j < len(g.stages); j++ {
		if terms += g.stages[j].blocks * g.stages[j].k; terms > g.dot.stage(batchTerms) && j > i {
			return j
		}
	}
	return len(g.stages)
}

// panels returns B of stages i to last for the groups of columns from to end, packing them into the worker's scratch where
// that has not been done before: each group at panelOffset, stage by stage.
func (g *gemm) panels(w *worker, i, last, from, end int) unsafe.Pointer {
	if g.packed != nil {
		j, cols := g.group(from)
		return unsafe.Add(g.packed, (j*g.depth+g.stages[i].first*g.tier.padded(cols))*4)
	}
	most := g.dot.stage(batchTerms)
	b := w.panel.acquire((end - from) * groupWidest * most * 4)
	for q := from; q < end; q++ {
		j, cols := g.group(q)
		for k := i; k < last; k++ {
			s := &g.stages[k]
			at := (q-from)*groupWidest*most + (s.first-g.stages[i].first)*g.tier.padded(cols)
			g.packStage(unsafe.Add(b, at*4), s, j, cols)
		}
	}
	return b
}

// packStage packs stage s for cols columns from j.
func (g *gemm) packStage(dst unsafe.Pointer, s *stage, j, cols int) {
	for i, from := range g.from[s.at : s.at+s.blocks] {
		p := g.w
		p.dst, p.depth, p.first, p.dot = dst, s.blocks*s.k, i*s.k, g.dot
		p.src = unsafe.Add(p.src, j*p.stride+from*p.dtype.Size())
		g.tier.packNK(p, cols, s.count)
	}
}

// packGroup packs all stages of group i to where panels finds them.
func (g *gemm) packGroup(i int) {
	j, cols := g.group(i)
	for i := range g.stages {
		s := &g.stages[i]
		g.packStage(unsafe.Add(g.packed, (j*g.depth+s.first*g.tier.padded(cols))*4), s, j, cols)
	}
}

// prefetch sets r to ask for what is read after the batch of stages up to end of the columns from j: the next batch,
// or the first one of group next, if that is one. Where B is packed its panels are asked for, else what they
// are packed from.
func (g *gemm) prefetch(r *reduce, end, j, next int) {
	if end == len(g.stages) {
		end, j = g.idle, next*groupColumns
	}
	if j >= g.n {
		return
	}
	from, to := &g.stages[end], &g.stages[g.batch(end)-1]
	_, cols := g.group(j / groupColumns)
	if g.packed != nil {
		width := g.tier.padded(cols)
		terms := to.first + to.blocks*to.k - from.first
		r.startPrefetch(uintptr(g.packed)+uintptr((j*g.depth+from.first*width)*4), aheadBytes, terms*width*4/aheadBytes, 1)
		return
	}
	size := g.w.dtype.Size()
	elements := g.from[to.at+to.blocks-1] + to.count - g.from[from.at]
	r.startPrefetch(uintptr(g.w.src)+uintptr(j*g.w.stride+g.from[from.at]*size), g.w.stride, cols, elements*size)
}

// finishedRows is how many rows are finished together.
func (g *gemm) finishedRows() int {
	if g.tier.kernels[g.dot].tiles != nil {
		return tiledRows
	}
	return epilogueRows
}

// tile computes m rows of A and the columns of groups i to end, and finishes them as the rows of dst from row0 on.
// Group next probably comes after them.
func (g *gemm) tile(w *worker, a strip, m, row0, i, end, next int) {
	if len(g.stages) == 0 {
		for ; i < end; i++ {
			g.nothing(w, m, row0, i)
		}
		return
	}
	rows := g.finishedRows()
	t := tileOf{strip: a, row0: row0, from: i, kept: m, first: g.idle, own: g.batch(g.idle) < len(g.stages)}
	if !t.own {
		t.kept = min(m, rows)
	}
	t.sums = w.sums.acquire((end - i) * t.kept * groupWidest * 4)
	askAt := max(0, (m-askBefore+rows-1)/rows*rows)
	for t.first < len(g.stages) {
		t.last = g.batch(t.first)
		t.panels = g.panels(w, t.first, t.last, i, end)
		for done := 0; done < m; done += rows {
			if done == askAt && end == i+1 {
				g.prefetch(&w.reduce, t.last, i*groupColumns, next)
			}
			for q := i; q < end; q++ {
				g.part(w, &t, done, min(rows, m-done), q)
			}
		}
		t.first, w.reduce.ahead = t.last, 0
	}
	w.reduce = reduce{}
}

// tileOf is one tile under way: rows of A, groups of columns, and the batch of stages that is computed.
type tileOf struct {
	strip        strip
	row0         int  // of dst
	from         int  // the first group
	kept         int  // rows of sums in memory, group by group
	own          bool // all rows have sums of their own, else parts use the same memory
	first, last  int  // stages
	sums, panels unsafe.Pointer
}

// part adds the stages of a batch to the sums of m rows from done on, in the columns of group q; behind the last stage it
// finishes them.
func (g *gemm) part(w *worker, t *tileOf, done, m, q int) {
	j, cols := g.group(q)
	width, onto := g.tier.padded(cols), 0
	sums, b := unsafe.Add(t.sums, (q-t.from)*t.kept*groupWidest*4), unsafe.Add(t.panels, g.panelOffset(t, q))
	if t.own {
		sums = unsafe.Add(sums, done*width*4)
	}
	if g.e.onto.view != nil {
		onto = 1
		if t.first == g.idle {
			g.e.initSums(w, sums, width, t.row0+done, j, m, cols)
		}
	}
	r := &w.reduce
	r.ldc, r.lda = width*4, t.strip.lda
	for i := t.first; i < t.last; i++ {
		s := &g.stages[i]
		r.blocks, r.k, r.offs = s.blocks, s.k, unsafe.Pointer(&g.offs[s.at])
		r.add, r.apart = min(i-g.idle+onto, 1), s.apart
		r.b = unsafe.Add(b, (s.first-g.stages[t.first].first)*width*4)
		g.rows(r, t.strip, sums, done, m, cols)
	}
	if t.last == len(g.stages) {
		g.e.finish(w, sums, width, t.row0+done, j, m, cols)
	}
}

// panelOffset returns how far the panels of group q lie behind those of the first group of a tile.
func (g *gemm) panelOffset(t *tileOf, q int) int {
	if g.packed != nil {
		j, cols := g.group(q)
		first, firstCols := g.group(t.from)
		at := g.stages[t.first].first
		return (j*g.depth + at*g.tier.padded(cols) - first*g.depth - at*g.tier.padded(firstCols)) * 4
	}
	return (q - t.from) * groupWidest * g.dot.stage(batchTerms) * 4
}

// nothing finishes a tile of sums without terms.
func (g *gemm) nothing(w *worker, m, row0, i int) {
	j, cols := g.group(i)
	width := g.tier.padded(cols)
	c := w.sums.acquire(m * width * 4)
	clear(unsafe.Slice((*float32)(c), m*width))
	if g.e.onto.view != nil {
		g.e.initSums(w, c, width, row0, j, m, cols)
	}
	g.e.finish(w, c, width, row0, j, m, cols)
}

// rows computes m rows of the strip from the given one on; their sums begin at c.
func (g *gemm) rows(r *reduce, a strip, c unsafe.Pointer, from, m, cols int) {
	for first, end := from, from+m; from < end; {
		at := a.skip + from
		part := min(end-from, a.run-at%a.run)
		r.a = unsafe.Add(a.a, at/a.run*a.jump+at%a.run*a.lda)
		r.c = unsafe.Add(c, (from-first)*r.ldc)
		g.tier.multiply(r, g.dot, part, cols)
		from += part
	}
}
