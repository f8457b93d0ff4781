package cpu

import "unsafe"

const (
	// stageTerms is the number of terms that are added in one chain, before their sum is added to the earlier stages. It is
	// part of the order of additions and so of every class. A panel of 64 columns of a stage fills an eighth of an L2 cache of
	// 1 MiB.
	stageTerms = 512
	// batchTerms is the number of terms of neighbouring stages that are packed together. The sums of a few rows then pass
	// through all of these stages while they are in the L1 cache. It changes no bits.
	batchTerms = 640

	groupColumns   = 64  // number of columns that are computed together; the last group may have up to groupWidest
	groupWidest    = 80  // five vectors of AVX-512: for 72 columns
	epilogueRows   = 48  // number of rows that are finished while they are still in the L1 cache
	tiledRows      = 96  // the same with tiles, whose sums are in the L2 cache
	prefetchBefore = 144 // rows before the end of a stage at which the next panel is prefetched: late, so that it is still in a near cache

	// strideTrap is a distance between rows, in bytes, that causes cache conflicts, as do its multiples: such rows use the same
	// sets of the L1 cache, which has 64 sets of 8 lines, so six rows and the panel evict each other (measured: 15 % slower, 50 %
	// with AVX2).
	strideTrap = 2048
)

// stage is the part of a product that is added in one chain.
type stage struct {
	first    int // index of its first term in the product
	blocks   int // number of blocks
	k        int // terms per block
	count    int // elements of a column of B per block
	at       int // index of its first block in the lists of the gemm
	separate int // 1: each block is its own chain
}

// strip describes rows of A: rows of a run are lda bytes apart, runs are jump bytes apart. The strip starts at row skip.
type strip struct {
	a                    unsafe.Pointer
	run, lda, jump, skip int
}

// gemm is one product with its epilogue: Linear, or the taps of Conv. Each call fills it again and reuses its lists.
type gemm struct {
	tier          *tier
	dot           dot
	n             int // columns
	depth         int // terms of all stages
	stages        []stage
	closedStages  int            // number of stages that accept no more blocks
	skippedStages int            // number of first stages whose A is zeros: their sums are skipped
	borders       uint64         // hashBorders of the parts
	offs          []int64        // offset of each block from the start of a row of A, in bytes
	blockStarts   []int          // index of the first element of each block in a column of B
	packed        unsafe.Pointer // B, all stages of all groups; nil: B is packed stage by stage from w
	w             packing        // the source of B: column 0 of each block
	e             epilogue

	a             rows  // Linear: the left operand
	strip         strip // the memory of a
	rowsPerTask   int   // rows per task
	groupsPerTask int   // groups of columns per task
}

// reset makes g a product without terms.
func (g *gemm) reset(t *tier, d dot, n int) {
	*g = gemm{tier: t, dot: d, n: n, stages: g.stages[:0], offs: g.offs[:0], blockStarts: g.blockStarts[:0]}
}

// addBlock adds count elements of each column of B, from index from on, times the elements at offset bytes from the start of the
// row of A. It appends them to the last stage if the block length is equal and there is room, else to a new stage. If the tier
// supports separate blocks, a stage may have room for more blocks than one chain: each of them is then its own chain.
func (g *gemm) addBlock(from, count, offset int) {
	k := g.dot.terms(count)
	var last *stage
	if n := len(g.stages); n > 0 && g.stages[n-1].count == count {
		last = &g.stages[n-1]
	}
	switch {
	case last != nil && len(g.stages) > g.closedStages && last.separate == 0 && (last.blocks+1)*k <= g.dot.stage(stageTerms):
		last.blocks++
	case last != nil && g.tier.separateBlocks && (last.separate == 1 || last.blocks == 1) && (last.blocks+1)*k <= g.dot.stage(batchTerms):
		last.blocks, last.separate = last.blocks+1, 1
	default:
		g.stages = append(g.stages, stage{first: g.depth, blocks: 1, k: k, count: count, at: len(g.offs)})
	}
	g.depth += k
	g.offs, g.blockStarts = append(g.offs, int64(offset)), append(g.blockStarts, from)
}

// stagesOf returns the number of stages whose blocks are all among the given number of first blocks.
func (g *gemm) stagesOf(blocks int) int {
	n := 0
	for n < len(g.stages) && g.stages[n].at+g.stages[n].blocks <= blocks {
		n++
	}
	return n
}

// addSpan adds count elements that are contiguous in A and in B, in their own stages.
func (g *gemm) addSpan(from, count, offset int) {
	step := stageTerms * g.dot.multiple()
	for done := 0; done < count; done += step {
		g.addBlock(from+done, min(step, count-done), offset+done*4/g.dot.perTerm())
	}
}

// addParts adds a sum of count elements, divided at the given borders; each part has its own stages.
func (g *gemm) addParts(count int, borders []int) {
	g.borders = hashBorders(borders)
	from := 0
	for i := range len(borders) + 1 {
		end := count
		if i < len(borders) {
			end = borders[i]
		}
		g.closedStages = len(g.stages)
		g.addSpan(from, end-from, from*4/g.dot.perTerm())
		from = end
	}
}

// hashBorders returns a hash (FNV-1a) of the borders between parts, to distinguish different divisions of a sum.
func hashBorders(borders []int) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, b := range borders {
		h = (h ^ uint64(b)) * prime
	}
	return h
}

// groups returns the number of groups of columns.
func (g *gemm) groups() int { return max(1, (g.n-groupWidest+groupColumns-1)/groupColumns+1) }

// group returns the first column and the size of group i.
func (g *gemm) group(i int) (first, cols int) {
	first, cols = i*groupColumns, g.n-i*groupColumns
	if cols > groupWidest {
		cols = groupColumns
	}
	return first, cols
}

// batch returns the end of the batch that starts at stage i: its stages are computed together.
func (g *gemm) batch(i int) int {
	terms := 0
	for j := i; j < len(g.stages); j++ {
		if terms += g.stages[j].blocks * g.stages[j].k; terms > g.dot.stage(batchTerms) && j > i {
			return j
		}
	}
	return len(g.stages)
}

// panels returns B of stages i to last for the groups of columns from to end: each group at panelOffset, stage by stage. If B
// is not packed yet, panels packs it into the worker's scratch.
func (g *gemm) panels(w *worker, i, last, from, end int) unsafe.Pointer {
	if g.packed != nil {
		j, cols := g.group(from)
		return unsafe.Add(g.packed, (j*g.depth+g.stages[i].first*g.tier.padded(cols))*4)
	}
	terms := g.dot.stage(batchTerms)
	b := w.panel.acquire((end - from) * groupWidest * terms * 4)
	for q := from; q < end; q++ {
		j, cols := g.group(q)
		for k := i; k < last; k++ {
			s := &g.stages[k]
			at := (q-from)*groupWidest*terms + (s.first-g.stages[i].first)*g.tier.padded(cols)
			g.packStage(unsafe.Add(b, at*4), s, j, cols)
		}
	}
	return b
}

// packStage packs stage s for cols columns from j.
func (g *gemm) packStage(dst unsafe.Pointer, s *stage, j, cols int) {
	for i, from := range g.blockStarts[s.at : s.at+s.blocks] {
		p := g.w
		p.dst, p.depth, p.first, p.dot = dst, s.blocks*s.k, i*s.k, g.dot
		p.src = unsafe.Add(p.src, j*p.stride+from*p.dtype.Size())
		g.tier.packNK(p, cols, s.count)
	}
}

// packGroup packs all stages of group i to the place where panels reads them.
func (g *gemm) packGroup(i int) {
	j, cols := g.group(i)
	for i := range g.stages {
		s := &g.stages[i]
		g.packStage(unsafe.Add(g.packed, (j*g.depth+s.first*g.tier.padded(cols))*4), s, j, cols)
	}
}

// prefetch makes r prefetch what is read after the batch of stages that ends at end, for the columns from j on: the next batch,
// or the first batch of group next if there is such a group. If B is packed, r prefetches panels, else their source.
func (g *gemm) prefetch(r *reduce, end, j, next int) {
	if end == len(g.stages) {
		end, j = g.skippedStages, next*groupColumns
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
	elements := g.blockStarts[to.at+to.blocks-1] + to.count - g.blockStarts[from.at]
	r.startPrefetch(uintptr(g.w.src)+uintptr(j*g.w.stride+g.blockStarts[from.at]*size), g.w.stride, cols, elements*size)
}

// finishedRows returns the number of rows that are finished together.
func (g *gemm) finishedRows() int {
	if g.tier.kernels[g.dot].tiles != nil {
		return tiledRows
	}
	return epilogueRows
}

// computeTile computes m rows of A and the columns of groups i to end, and finishes them as the rows of dst from row0 on. next is the
// group that probably follows, for prefetching.
func (g *gemm) computeTile(w *worker, a strip, m, row0, i, end, next int) {
	if len(g.stages) == 0 {
		for ; i < end; i++ {
			g.finishEmpty(w, m, row0, i)
		}
		return
	}
	rows := g.finishedRows()
	t := tileState{strip: a, row0: row0, firstGroup: i, sumRows: m, first: g.skippedStages, separateSums: g.batch(g.skippedStages) < len(g.stages)}
	if !t.separateSums {
		t.sumRows = min(m, rows)
	}
	t.sums = w.sums.acquire((end - i) * t.sumRows * groupWidest * 4)
	prefetchAt := max(0, (m-prefetchBefore+rows-1)/rows*rows)
	for t.first < len(g.stages) {
		t.last = g.batch(t.first)
		t.panels = g.panels(w, t.first, t.last, i, end)
		for done := 0; done < m; done += rows {
			if done == prefetchAt && end == i+1 {
				g.prefetch(&w.reduce, t.last, i*groupColumns, next)
			}
			for q := i; q < end; q++ {
				g.addBatch(w, &t, done, min(rows, m-done), q)
			}
		}
		t.first, w.reduce.ahead = t.last, 0
	}
	w.reduce = reduce{}
}

// tileState is the state of one tile: rows of A, groups of columns, and the current batch of stages.
type tileState struct {
	strip        strip
	row0         int  // of dst
	firstGroup   int  // the first group
	sumRows      int  // number of rows of sums in memory, group by group
	separateSums bool // all rows have their own sums; else parts reuse the same memory
	first, last  int  // stages
	sums, panels unsafe.Pointer
}

// addBatch adds the stages of a batch to the sums of m rows from done on, in the columns of group q. After the last stage it
// finishes the sums.
func (g *gemm) addBatch(w *worker, t *tileState, done, m, q int) {
	j, cols := g.group(q)
	width, onto := g.tier.padded(cols), 0
	sums, b := unsafe.Add(t.sums, (q-t.firstGroup)*t.sumRows*groupWidest*4), unsafe.Add(t.panels, g.panelOffset(t, q))
	if t.separateSums {
		sums = unsafe.Add(sums, done*width*4)
	}
	if g.e.onto.view != nil {
		onto = 1
		if t.first == g.skippedStages {
			g.e.initSums(w, sums, width, t.row0+done, j, m, cols)
		}
	}
	r := &w.reduce
	r.ldc, r.lda = width*4, t.strip.lda
	for i := t.first; i < t.last; i++ {
		s := &g.stages[i]
		r.blocks, r.k, r.offs = s.blocks, s.k, unsafe.Pointer(&g.offs[s.at])
		r.add, r.separate = min(i-g.skippedStages+onto, 1), s.separate
		r.b = unsafe.Add(b, (s.first-g.stages[t.first].first)*width*4)
		g.computeRows(r, t.strip, sums, done, m, cols)
	}
	if t.last == len(g.stages) {
		g.e.finish(w, sums, width, t.row0+done, j, m, cols)
	}
}

// panelOffset returns the distance from the panels of a tile's first group to those of group q, in bytes.
func (g *gemm) panelOffset(t *tileState, q int) int {
	if g.packed != nil {
		j, cols := g.group(q)
		first, firstCols := g.group(t.firstGroup)
		at := g.stages[t.first].first
		return (j*g.depth + at*g.tier.padded(cols) - first*g.depth - at*g.tier.padded(firstCols)) * 4
	}
	return (q - t.firstGroup) * groupWidest * g.dot.stage(batchTerms) * 4
}

// finishEmpty finishes a tile whose sums have no terms.
func (g *gemm) finishEmpty(w *worker, m, row0, i int) {
	j, cols := g.group(i)
	width := g.tier.padded(cols)
	c := w.sums.acquire(m * width * 4)
	clear(unsafe.Slice((*float32)(c), m*width))
	if g.e.onto.view != nil {
		g.e.initSums(w, c, width, row0, j, m, cols)
	}
	g.e.finish(w, c, width, row0, j, m, cols)
}

// computeRows computes m rows of the strip from the given one on and writes their sums to c.
func (g *gemm) computeRows(r *reduce, a strip, c unsafe.Pointer, from, m, cols int) {
	for first, end := from, from+m; from < end; {
		at := a.skip + from
		part := min(end-from, a.run-at%a.run)
		r.a = unsafe.Add(a.a, at/a.run*a.jump+at%a.run*a.lda)
		r.c = unsafe.Add(c, (from-first)*r.ldc)
		g.tier.multiply(r, g.dot, part, cols)
		from += part
	}
}
