package cpu

import (
	"math"
	"unsafe"
)

// A product of 8-bit numbers (kernels.Epilogue.Int8). Each row of x and of w, in each part, has a scale: its largest magnitude
// / 127. The row times 127 / largest is rounded to -127 ... 127, ties to even. The integer sums are exact, so every set of
// instructions and every order gives the same bits. A result is ((sum * scale of w) * scale of x) in fp32; parts are added in
// their order.

// int8Set is a set of instructions for these products.
type int8Set struct {
	name           string
	lanes          int  // columns per vector
	align          int  // the width of a panel is a multiple of align
	maxWidth       int  // greatest width of a panel
	numbersPerTerm int  // numbers per term: 4 numbers of 8 bits, or 2 of 16 bits
	offset         byte // added to the numbers of x: 128 if they are unsigned
	kernels        *kernelSet

	largest    func(src []float32) uint32
	quantize   func(dst unsafe.Pointer, src []float32, factor float32)
	restore    func(dst []float32, sums, less []int32, scales []float32, factor float32)
	restoreAdd func(dst []float32, sums, less []int32, scales []float32, factor float32)
}

// padded returns the number of columns of panels for n columns.
func (s *int8Set) padded(n int) int { return (n + s.align - 1) / s.align * s.align }

const (
	int8Max = 127
	// int8Terms is the greatest number of terms in a part of a sum: more could overflow int32.
	int8Terms = math.MaxInt32 / (int8Max * int8Max)
	// minRowBits is the bits of a magnitude. A row whose largest magnitude is below it is treated as zeros, because 127 / largest
	// must be finite.
	minRowBits = 0x0d800000 // 2^-100
	infinity   = 0x7f800000

	int8Rows  = 48  // rows whose sums fit into the L1 cache
	int8Block = 192 // rows per task
	int8Stage = 512 // terms that are multiplied together
)

// scaleOf returns the scale of a row and the factor by which it is rounded. The scale of a row that is not finite is NaN, and
// so are its results.
func scaleOf(largest uint32) (scale, factor float32) {
	switch {
	case largest >= infinity:
		return float32(math.NaN()), 0
	case largest < minRowBits:
		return 0, 0
	}
	magnitude := math.Float32frombits(largest)
	return magnitude / int8Max, int8Max / magnitude
}

// int8Part is a part of the sums: the place of its numbers in rows of x and w, and in the rounded rows.
type int8Part struct {
	from, count int
	terms       int
	at          int // offset in a rounded row of x, in bytes
	panels      int // offset in the packed w, in bytes
}

// int8Product is one product of 8-bit numbers.
type int8Product struct {
	set     *int8Set
	parts   []int8Part
	borders uint64 // hashBorders of the parts
	n       int    // columns
	width   int    // columns including the padding of the last panel
	lda     int    // distance between rounded rows of x, in bytes
	size    int    // size of the packed w in bytes: panels, then less and scales by part and column

	x         rows
	a         unsafe.Pointer
	factor    []float32 // the scales of x by row and part
	w         *view
	packed    unsafe.Pointer
	e         epilogue
	rowBlocks int // number of blocks of rows
}

// linearInt8 computes the product of the rows of x and of w (N, K) with 8-bit numbers.
func (b *Backend) linearInt8(op string, x, w *view, borders []int, e epilogue) {
	p := &b.int8
	*p = int8Product{set: b.tier.int8, parts: p.parts[:0], factor: p.factor, n: e.dst.n, x: newRows(x), w: w, e: e}
	defer func() { p.x, p.w, p.e, p.a, p.packed = rows{}, nil, epilogue{}, nil, nil }()
	if p.x.count == 0 || p.n == 0 {
		return
	}
	if w.Strides[1] != 1 && w.Shape[1] > 1 {
		b.fail("%s: int8 needs rows of w whose elements are contiguous", op)
		return
	}
	if most := p.divide(x.Shape[len(x.Shape)-1], borders); most > int8Terms {
		b.fail("%s: a sum of %d numbers is too long for int8: %d at most", op, most, int8Terms)
		return
	}
	mem, _, err := b.arena.acquire(p.x.count * p.lda)
	if err == nil {
		p.a = mem
		p.packed, err = b.packedInt8(op, p)
	}
	if err != nil {
		b.fail("%s: %w", op, err)
		return
	}
	p.factor = growList(&p.factor, p.x.count*len(p.parts))
	b.eachSpan(op, p.x.count, p.x.n, p.roundRows)
	p.rowBlocks = (p.x.count + int8Block - 1) / int8Block
	b.each(op, p.rowBlocks*((p.width+groupColumns-1)/groupColumns), p.tile)
}

// divide sets the parts of sums over k numbers and returns the length of the longest.
func (p *int8Product) divide(k int, borders []int) (most int) {
	s := p.set
	p.borders = hashBorders(borders)
	p.width = s.padded(p.n)
	from := 0
	for i := range len(borders) + 1 {
		end := k
		if i < len(borders) {
			end = borders[i]
		}
		terms := (end - from + s.numbersPerTerm - 1) / s.numbersPerTerm
		p.parts = append(p.parts, int8Part{from: from, count: end - from, terms: terms, at: p.lda, panels: p.size})
		most, from = max(most, end-from), end
		p.lda += (terms*4 + lineSize - 1) / lineSize * lineSize
		p.size += p.width * terms * s.numbersPerTerm
	}
	p.lda = padRow(p.lda)
	p.size = (p.size+lineSize-1)/lineSize*lineSize + len(p.parts)*p.width*8
	return most
}

// columns returns, by column, the numbers to subtract from the sums of a part, and the scales of w.
func (p *int8Product) columns(part int) (less []int32, scales []float32) {
	tail := unsafe.Add(p.packed, p.size-(len(p.parts)-part)*p.width*8)
	return unsafe.Slice((*int32)(tail), p.width), unsafe.Slice((*float32)(unsafe.Add(tail, p.width*4)), p.width)
}

// roundRows rounds rows of x.
func (p *int8Product) roundRows(w *worker, from, to int) {
	c := p.x.cursor(from)
	for i := from; i < to; i++ {
		row := c.read(w.floats(0, p.x.n))
		for q, part := range p.parts {
			scale, factor := scaleOf(p.set.largest(row[part.from : part.from+part.count]))
			p.factor[i*len(p.parts)+q] = scale
			p.set.quantize(unsafe.Add(p.a, i*p.lda+part.at), row[part.from:part.from+part.count], factor)
		}
		c.next()
	}
}

// packedInt8 returns w rounded and packed: cached with the weight, or in the arena if the weight only passes through memory.
func (b *Backend) packedInt8(op string, p *int8Product) (unsafe.Pointer, error) {
	w := p.w
	fill := func(mem unsafe.Pointer) {
		p.packed = mem
		b.each(op, (p.width+groupColumns-1)/groupColumns, p.packColumns)
	}
	if w.buf.weight != nil && !w.buf.weight.passing.Load() {
		key := packedKey{int8: p.set, offset: w.Offset, stride: w.Strides[0], n: w.Shape[0], k: w.Shape[1], parts: p.borders}
		if mem := w.buf.weight.lookup(key); mem != nil {
			return mem, nil
		}
		if mem := w.buf.weight.get(key, p.size, math.MaxInt64, fill); mem != nil {
			return mem, nil
		}
	}
	mem, _, err := b.arena.acquire(p.size)
	if err == nil {
		fill(mem)
	}
	return mem, err
}

// packColumns rounds and packs a group of columns, which are rows of w.
func (p *int8Product) packColumns(w *worker, group int) {
	s, k := p.set, p.x.n
	for q, part := range p.parts {
		less, scales := p.columns(q)
		numbers := unsafe.Slice((*int8)(w.half.acquire(part.terms*4+lineSize)), part.terms*4+lineSize)
		for j := group * groupColumns; j < min(p.width, (group+1)*groupColumns); j++ {
			panel := j / s.maxWidth * s.maxWidth
			wide := min(s.maxWidth, p.width-panel)
			out := unsafe.Slice((*int8)(unsafe.Add(p.packed, part.panels+panel*part.terms*s.numbersPerTerm)), wide*part.terms*s.numbersPerTerm)
			at := j - panel
			if j >= p.n {
				less[j], scales[j] = 0, 0
				for t := range part.terms {
					clear(out[(t*wide+at)*s.numbersPerTerm:][:s.numbersPerTerm])
				}
				continue
			}
			row := p.w.read(w.floats(0, k), p.w.Offset+j*p.w.Strides[0]+part.from, 1, part.count)
			scale, factor := scaleOf(s.largest(row))
			s.quantize(unsafe.Pointer(&numbers[0]), row, factor)
			sum := s.interleave(out, at, wide, part.terms, part.count, numbers)
			less[j], scales[j] = sum*int32(s.offset), scale
		}
	}
}

// interleave writes count rounded numbers as a column of a panel of terms rows and wide columns. It returns their sum.
func (s *int8Set) interleave(panel []int8, column, wide, terms, count int, numbers []int8) (sum int32) {
	if s.numbersPerTerm == 4 { // the padding of the last term is the offset
		for t := range terms {
			out, in := panel[(t*wide+column)*4:][:4], numbers[t*4:][:4]
			for i, x := range in {
				x = int8(byte(x) - s.offset)
				out[i] = x
				sum += int32(x)
			}
		}
		return sum
	}
	low := 0 // index of the low byte of a 16-bit number
	if !littleEndian {
		low = 1
	}
	for t := range terms {
		out := panel[(t*wide+column)*2:][:2]
		clear(out)
		for i := range min(2, count-2*t) {
			out[i] = numbers[(2*t+i)*2+low]
			sum += int32(out[i])
		}
	}
	return sum
}

// tile computes a block of rows and a group of columns: task i.
func (p *int8Product) tile(w *worker, i int) {
	groups := (p.width + groupColumns - 1) / groupColumns
	j, row0 := i%groups*groupColumns, i/groups*int8Block
	cols, rows := min(groupColumns, p.width-j), min(int8Block, p.x.count-row0)
	sums := w.sums.acquire(2 * int8Rows * groupColumns * 4)
	result := unsafe.Add(sums, int8Rows*groupColumns*4)
	ints, floats := unsafe.Slice((*int32)(sums), int8Rows*groupColumns), unsafe.Slice((*float32)(result), int8Rows*groupColumns)
	for done := 0; done < rows; done += int8Rows {
		m := min(int8Rows, rows-done)
		add := p.e.onto.view != nil
		if add {
			p.e.initSums(w, result, groupColumns, row0+done, j, m, min(cols, p.n-j))
		}
		for q := range p.parts {
			p.multiply(w, sums, row0+done, j, m, cols, q)
			less, scales := p.columns(q)
			restore := p.set.restore
			if add {
				restore = p.set.restoreAdd
			}
			for i := range m {
				at := i * groupColumns
				restore(floats[at:at+cols], ints[at:at+cols], less[j:j+cols], scales[j:j+cols], p.factor[(row0+done+i)*len(p.parts)+q])
			}
			add = true
		}
		p.e.finish(w, result, groupColumns, row0+done, j, m, min(cols, p.n-j))
	}
	w.reduce = reduce{}
}

// noOffset is the list of offsets of a single block.
var noOffset int64

// multiply computes the integer sums of a part for m rows and cols columns.
func (p *int8Product) multiply(w *worker, sums unsafe.Pointer, row0, j, m, cols, q int) {
	part, s, r := &p.parts[q], p.set, &w.reduce
	*r = reduce{ldc: groupColumns * 4, lda: p.lda, blocks: 1, offs: unsafe.Pointer(&noOffset)}
	for from := 0; from < part.terms || from == 0; from += int8Stage {
		r.k, r.add = min(int8Stage, part.terms-from), min(from, 1)
		s.multiply(r, unsafe.Add(p.a, row0*p.lda+part.at+from*4), unsafe.Add(p.packed, part.panels), sums, m, columns{j, cols, p.width, part.terms, from})
	}
}

// columns is a range of the columns of panels, and a range of their terms.
type columns struct {
	first, count int
	width        int // of the whole panels
	terms, from  int // terms of a column; the terms from index from on are multiplied
}

// multiply computes the integer sums of r.k terms for m rows of a and the given columns of the panels at b, and writes them to
// c.
func (s *int8Set) multiply(r *reduce, a, b, c unsafe.Pointer, m int, n columns) {
	add := r.add
	for at := n.first; at < n.first+n.count; {
		panel := at / s.maxWidth * s.maxWidth
		wide := min(s.maxWidth, n.width-panel)
		r.b = unsafe.Add(b, (panel*n.terms+n.from*wide)*s.numbersPerTerm)
		micro, best := &s.kernels.byVectors[wide/s.lanes], &s.kernels.best[wide/s.lanes]
		for i := 0; i < m; {
			rows := int(best[min(m-i, maxRows)])
			r.a, r.c, r.add = unsafe.Add(a, i*r.lda), unsafe.Add(c, i*r.ldc+(at-n.first)*4), add
			micro[rows](r)
			i += rows
		}
		at += wide
	}
}

// int8Go uses plain Go.
var int8Go = &int8Set{
	name: "go", lanes: 4, align: 4, maxWidth: 4, numbersPerTerm: 2,
	kernels:  newKernelSet([]microKernels{1: {1: reduceInt8Go}}),
	largest:  largestGo,
	quantize: quantizeGo,
	restore: func(dst []float32, sums, less []int32, scales []float32, factor float32) {
		restoreGo(dst, sums, less, scales, factor, false)
	},
	restoreAdd: func(dst []float32, sums, less []int32, scales []float32, factor float32) {
		restoreGo(dst, sums, less, scales, factor, true)
	},
}

// reduceInt8Go computes a row of four sums.
func reduceInt8Go(r *reduce) {
	a, b := unsafe.Slice((*[2]int16)(r.row(0, 0)), r.k), unsafe.Slice((*[8]int8)(r.b), r.k)
	c := (*[4]int32)(r.c)
	var c0, c1, c2, c3 int32
	for i, x := range a {
		y, x0, x1 := &b[i], int32(x[0]), int32(x[1])
		c0 += x0*int32(y[0]) + x1*int32(y[1])
		c1 += x0*int32(y[2]) + x1*int32(y[3])
		c2 += x0*int32(y[4]) + x1*int32(y[5])
		c3 += x0*int32(y[6]) + x1*int32(y[7])
	}
	if r.add != 0 {
		c0, c1, c2, c3 = c0+c[0], c1+c[1], c2+c[2], c3+c[3]
	}
	*c = [4]int32{c0, c1, c2, c3}
}

func largestGo(src []float32) (most uint32) {
	for _, x := range src {
		most = max(most, math.Float32bits(x)&^(1<<31))
	}
	return most
}

// quantizeGo stores 16-bit numbers; an odd last number is paired with a zero.
func quantizeGo(dst unsafe.Pointer, src []float32, factor float32) {
	out := unsafe.Slice((*int16)(dst), (len(src)+1)/2*2)
	for i, x := range src {
		out[i] = 0
		if y := float64(float32(x * factor)); y == y {
			out[i] = int16(math.RoundToEven(y))
		}
	}
	clear(out[len(src):])
}

func restoreGo(dst []float32, sums, less []int32, scales []float32, factor float32, add bool) {
	for i, s := range sums {
		y := float32(float32(float32(s-less[i])*scales[i]) * factor)
		if add {
			y = dst[i] + y
		}
		dst[i] = y
	}
}
