package main

import "fmt"

// Offsets of the fields of reduce (../reduce.go). A test compares them.
const (
	argC = 8 * iota
	argLdc
	argBlocks
	argOffs
	argA
	argB
	argK
	argLda
	argAdd
	argSeparate
	argAhead
	argAheadStride
)

// tile is the shape of a micro-kernel. rows x vectors accumulators stay in registers, while a loop over k loads vectors of B and
// broadcasts a term of each row of A.
type tile struct {
	rows, vectors int
	width         int                        // bytes of a vector
	reg           func(int) string           // register names
	acc0          int                        // first accumulator; B's vectors start at 0
	spread        int                        // registers for broadcast terms of A
	clear         string                     // instruction that zeroes a register
	multiply      func(b, a, acc int) string // acc += a * b
	multiplyHalf  func(b, a, acc int) string // like multiply, with 256 bits
	half          bool                       // the last vector is 256 bits wide and has half as many columns
	ahead         bool                       // prefetch two cache lines every 8 terms
	pairs         bool                       // terms are pairs; the second of a pair is added first, and subnormal numbers count as zero
	integer       bool                       // sums are int32
	bytewise      bool                       // B consists of bytes that are widened to 16 bits: half the memory of a vector
}

// stored returns the size of a vector of B in memory.
func (t tile) stored() int {
	if t.bytewise {
		return t.width / 2
	}
	return t.width
}

// vector returns the name of register i, which contains part of column vector j.
func (t tile) vector(i, j int) string {
	if t.half && j == t.vectors-1 {
		return y(i)
	}
	return t.reg(i)
}

// rowBase returns the address of row i of A. Each of up to four pointers serves three rows.
func rowBase(i int) string {
	return "(" + rowPointers[i/3] + ")" + [...]string{"", "(R8*1)", "(R8*2)"}[i%3]
}

var rowPointers = [...]string{"AX", "R9", "R12", "R13"}

// gemm writes the micro-kernel name(r *reduce) for t, its loop over k unrolled.
func (f *file) gemm(name string, t tile, unroll int) {
	doc, step := fmt.Sprintf("computes %d x %d sums.", t.rows, t.vectors*t.width/4), 1
	if t.pairs {
		step = 2
		f.fnFrame(name, "r *reduce", "", flushFrame, 8, doc)
	} else {
		f.fn(name, "r *reduce", 8, doc)
	}
	f.p("MOVQ r+0(FP), DX")
	f.p("MOVQ %d(DX), SI\nMOVQ %d(DX), R10", argLdc, argBlocks)
	f.p("MOVQ %d(DX), R11\nMOVQ %d(DX), BX\nMOVQ %d(DX), R8", argOffs, argB, argLda)
	if t.ahead {
		f.p("MOVQ %d(DX), R12\nMOVQ %d(DX), R13", argAhead, argAheadStride)
	}
	f.at("clear")
	for i := range t.rows * t.vectors {
		r := t.reg(t.acc0 + i)
		f.p("%s %s, %s, %s", t.clear, r, r, r)
	}
	if t.pairs {
		f.flush()
	}
	f.at("block")
	f.p("MOVQ %d(DX), AX\nADDQ (R11), AX\nADDQ $8, R11", argA)
	for i := 1; i <= (t.rows-1)/3; i++ {
		f.p("LEAQ (%s)(R8*2), %s\nADDQ R8, %s", rowPointers[i-1], rowPointers[i], rowPointers[i])
	}
	f.p("MOVQ %d(DX), CX", argK)
	f.p("SUBQ $%d, CX\nJL rest", unroll)
	f.at("loop")
	for u := range unroll {
		f.term(t, u^(step-1))
		if t.ahead && u%4 == 0 {
			f.p("PREFETCHT1 %d(R12)", u/4*64)
		}
	}
	if t.ahead {
		f.p("ADDQ R13, R12")
	}
	f.advance(t, unroll)
	f.p("SUBQ $%d, CX\nJGE loop", unroll)
	f.at("rest")
	f.p("ADDQ $%d, CX\nJLE next", unroll)
	f.at("single")
	for u := range step {
		f.term(t, u^(step-1))
	}
	f.advance(t, step)
	if t.pairs {
		f.p("SUBQ $2, CX\nJNZ single")
	} else {
		f.p("DECQ CX\nJNZ single")
	}
	f.at("next")
	f.p("DECQ R10\nJZ sums\nMOVQ %d(DX), CX\nTESTQ CX, CX\nJZ block", argSeparate)
	f.at("sums")
	if t.pairs {
		f.restore()
	}
	f.storeSums(t)
}

// VDPBF16PS adds the product of the second halves of two pairs and then that of the first halves, each as a fused multiply-add.
// It treats subnormal numbers as zero, in operands and results. Two fp32 multiply-adds give the same bits if FTZ and DAZ are set
// in MXCSR.
const (
	flushFrame = 8      // local memory of a function that uses flush
	ftzDAZ     = 0x8040 // bits of MXCSR
)

// flush saves MXCSR and sets FTZ and DAZ.
func (f *file) flush() {
	f.p("STMXCSR mxcsr-8(SP)\nMOVL mxcsr-8(SP), CX\nORL $0x%x, CX\nMOVL CX, flush-4(SP)\nLDMXCSR flush-4(SP)", ftzDAZ)
}

// restore restores MXCSR.
func (f *file) restore() { f.p("LDMXCSR mxcsr-8(SP)") }

// term adds the products of term u.
func (f *file) term(t tile, u int) {
	for j := range t.vectors {
		load := "VMOVUPS"
		if t.bytewise {
			load = "VPMOVSXBW"
		}
		f.p("%s %d(BX), %s", load, (u*t.vectors+j)*t.stored(), t.vector(j, j))
	}
	for i := range t.rows {
		a := t.vectors + i%t.spread
		f.p("VBROADCASTSS %d%s, %s", u*4, rowBase(i), t.reg(a))
		for j := range t.vectors {
			multiply := t.multiply
			if t.half && j == t.vectors-1 {
				multiply = t.multiplyHalf
			}
			f.p("%s", multiply(j, a, t.acc0+i*t.vectors+j))
		}
	}
}

// advance moves the pointers by n terms.
func (f *file) advance(t tile, n int) {
	f.p("ADDQ $%d, BX", n*t.vectors*t.stored())
	for i := range (t.rows-1)/3 + 1 {
		f.p("ADDQ $%d, %s", 4*n, rowPointers[i])
	}
}

// storeSums writes the accumulators to C or adds them to it. If blocks are summed separately (reduce.separate) and there is another
// block, it continues with that block and adds its sums.
func (f *file) storeSums(t tile) {
	f.p("MOVQ %d(DX), DI\nMOVQ %d(DX), CX\nTESTQ CX, CX\nJZ store\nMOVQ DI, AX", argC, argAdd)
	for i := range t.rows {
		for j := range t.vectors {
			r := t.vector(t.acc0+i*t.vectors+j, j)
			add := "VADDPS"
			if t.integer {
				add = "VPADDD"
			}
			f.p("%s %d(AX), %s, %s", add, j*t.width, r, r)
		}
		f.p("ADDQ SI, AX")
	}
	f.at("store")
	for i := range t.rows {
		for j := range t.vectors {
			f.p("VMOVUPS %s, %d(DI)", t.vector(t.acc0+i*t.vectors+j, j), j*t.width)
		}
		f.p("ADDQ SI, DI")
	}
	f.p("TESTQ R10, R10\nJZ done\nMOVQ $1, %d(DX)\nJMP clear", argAdd)
	f.at("done")
	f.ret()
}

// table writes the Go table of the kernels prefix_RxV: [vectors][rows].
func (f *file) table(name, doc string, prefix string, rows map[int][]int, vectors int) {
	f.goCode("\n// %s %s", name, doc)
	f.goCode("var %s = [...]microKernels{", name)
	for v := 1; v <= vectors; v++ {
		if len(rows[v]) == 0 {
			continue
		}
		line := fmt.Sprintf("\t%d: {", v)
		for i, r := range rows[v] {
			if i > 0 {
				line += ", "
			}
			line += fmt.Sprintf("%d: %s%dx%d", r, prefix, r, v)
		}
		f.goCode("%s},", line+"")
	}
	f.goCode("}")
}
