package main

import (
	"fmt"
	"math"
)

// isa is a vector instruction set for the row routines. They process rows of fp32 of any length:
// first whole vectors, then one vector with a mask.
type isa struct {
	name  string           // suffix of the routines
	width int              // bytes of a vector
	reg   func(int) string // register names
	file  string
}

var (
	isa512 = isa{name: "512", width: 64, reg: z, file: "rows_avx512"}
	isa256 = isa{name: "256", width: 32, reg: y, file: "rows_avx2"}
)

func (v isa) wide() bool { return v.width == 64 }
func (v isa) lanes() int { return v.width / 4 }

// xor returns the instruction that zeroes a register.
func (v isa) xor() string {
	if v.wide() {
		return "VPXORD"
	}
	return "VXORPS"
}

// maskReg contains the tail mask of AVX2 routines. AVX-512 routines have it in K1.
const maskReg = "Y15"

// tables writes the constants that AVX2 routines read from memory. tail256 has 8 lanes of ones followed by 8 of zeros; a tail mask
// is 8 successive lanes of it. exp256 has the constants of exp, each 8 times.
func (f *file) tables(v isa) {
	if v.wide() {
		return
	}
	for i := range 16 {
		f.data("tail256<>", 4*i, uint32(int32(i-8)>>31))
	}
	f.global("tail256<>", 64)
	f.repeated("exp256<>", expConstants)
}

// repeated writes a table of constants, each 8 times.
func (f *file) repeated(table string, constants []float64) {
	for i, c := range constants {
		for lane := range 8 {
			f.data(table, 32*i+4*lane, math.Float32bits(float32(c)))
		}
	}
	f.global(table, 32*len(constants))
}

// data writes a dword of a table.
func (f *file) data(table string, off int, value uint32) {
	fmt.Fprintf(&f.text, "DATA %s+%d(SB)/4, $0x%08x\n", table, off, value)
}

// global declares a table of size bytes.
func (f *file) global(table string, size int) {
	fmt.Fprintf(&f.text, "GLOBL %s(SB), RODATA|NOPTR, $%d\n", table, size)
}

// constant broadcasts an fp32 into register i.
func (f *file) constant(v isa, value float64, i int) {
	f.bits(v, math.Float32bits(float32(value)), i)
}

// bits broadcasts a dword into register i.
func (f *file) bits(v isa, value uint32, i int) {
	f.p("MOVL $0x%08x, AX", value)
	if v.wide() {
		f.p("VPBROADCASTD AX, Z%d", i)
	} else {
		f.p("VMOVD AX, X%d\nVPBROADCASTD X%d, Y%d", i, i, i)
	}
}

// load reads a vector at off(ptr): all lanes, or those of the tail mask and zeros for the others.
func (f *file) load(v isa, off int, ptr string, i int, masked bool) {
	switch {
	case !masked:
		f.p("VMOVUPS %d(%s), %s", off, ptr, v.reg(i))
	case v.wide():
		f.p("VMOVUPS.Z %d(%s), K1, Z%d", off, ptr, i)
	default:
		f.p("VMASKMOVPS %d(%s), %s, Y%d", off, ptr, maskReg, i)
	}
}

// save writes a vector to off(ptr): all lanes, or those of the tail mask.
func (f *file) save(v isa, i, off int, ptr string, masked bool) {
	switch {
	case !masked:
		f.p("VMOVUPS %s, %d(%s)", v.reg(i), off, ptr)
	case v.wide():
		f.p("VMOVUPS Z%d, K1, %d(%s)", i, off, ptr)
	default:
		f.p("VMASKMOVPS Y%d, %s, %d(%s)", i, maskReg, off, ptr)
	}
}

// stream is a pointer that moves along a row.
type stream struct {
	ptr  string // register
	size int    // bytes of an element
}

// overRow writes the loop over the CX elements of a row. It calls body three times: for unroll vectors at a time, for one vector,
// and for the tail. body gets the number of vectors and whether the tail mask applies.
func (f *file) overRow(v isa, unroll int, streams []stream, body func(n int, masked bool)) {
	f.overLanes(v, v.lanes(), unroll, streams, body)
}

// overLanes is overRow for vectors with fewer lanes, such as float64.
func (f *file) overLanes(v isa, lanes, unroll int, streams []stream, body func(n int, masked bool)) {
	step := func(n int) {
		for _, s := range streams {
			f.p("ADDQ $%d, %s", n*lanes*s.size, s.ptr)
		}
	}
	f.loops++
	label := func(name string) string { return fmt.Sprint(name, f.loops) }
	few, rest, done := label("few"), label("rest"), label("done")
	f.p("SUBQ $%d, CX\nJL %s", unroll*lanes, few)
	f.at(label("loop"))
	body(unroll, false)
	step(unroll)
	f.p("SUBQ $%d, CX\nJGE %s", unroll*lanes, label("loop"))
	f.at(few)
	if unroll > 1 {
		f.p("ADDQ $%d, CX\nJL %s", (unroll-1)*lanes, rest)
		f.at(label("one"))
		body(1, false)
		step(1)
		f.p("SUBQ $%d, CX\nJGE %s", lanes, label("one"))
		f.at(rest)
	}
	f.p("ADDQ $%d, CX\nJLE %s", lanes, done)
	f.mask(v)
	body(1, true)
	f.at(done)
}

// mask makes the tail mask for CX lanes, fewer than a vector has. It overwrites AX.
func (f *file) mask(v isa) {
	if v.wide() {
		f.p("MOVL $1, AX\nSHLL CX, AX\nDECL AX\nKMOVW AX, K1")
		return
	}
	f.p("LEAQ tail256<>+32(SB), AX\nSHLQ $2, CX\nSUBQ CX, AX\nVMOVUPS (AX), %s", maskReg)
}
