package main

import (
	"fmt"
	"math"
)

// isa is a vector instruction set as the row routines see it. They work on rows of fp32 of any length:
// whole vectors first, then one vector under a mask.
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

// xor names the instruction that zeroes a register.
func (v isa) xor() string {
	if v.wide() {
		return "VPXORD"
	}
	return "VXORPS"
}

// maskReg holds the tail mask of AVX2 routines; AVX-512 ones have it in K1.
const maskReg = "Y15"

// tailMask writes the table that AVX2 tail masks are read from: 8 lanes of ones, then 8 of zeros.
func (f *file) tailMask() {
	for i := range 8 {
		value := "0xffffffffffffffff"
		if i >= 4 {
			value = "0"
		}
		fmt.Fprintf(&f.text, "DATA tail256<>+%d(SB)/8, $%s\n", 8*i, value)
	}
	f.text.WriteString("GLOBL tail256<>(SB), RODATA|NOPTR, $64\n")
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

// load reads the lanes of a vector at off(ptr), all or those of the tail mask, the others as zero.
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

// save writes the lanes of a vector to off(ptr), all or those of the tail mask.
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
	size int    // bytes an element
}

// overRow writes the loop over the CX elements of a row: body is written for unroll vectors at a time, for
// one, and for the tail; it gets the number of vectors and whether the tail mask applies.
func (f *file) overRow(v isa, unroll int, streams []stream, body func(n int, masked bool)) {
	step := func(n int) {
		for _, s := range streams {
			f.p("ADDQ $%d, %s", n*v.lanes()*s.size, s.ptr)
		}
	}
	f.p("SUBQ $%d, CX\nJL few", unroll*v.lanes())
	f.at("loop")
	body(unroll, false)
	step(unroll)
	f.p("SUBQ $%d, CX\nJGE loop", unroll*v.lanes())
	f.at("few")
	f.p("ADDQ $%d, CX", (unroll-1)*v.lanes())
	if unroll > 1 {
		f.p("JL rest")
		f.at("one")
		body(1, false)
		step(1)
		f.p("SUBQ $%d, CX\nJGE one", v.lanes())
	} else {
		f.p("NOP")
	}
	f.at("rest")
	f.p("ADDQ $%d, CX\nJLE done", v.lanes())
	f.mask(v)
	body(1, true)
	f.at("done")
}

// mask makes the tail mask for CX lanes, less than a vector; AX is lost.
func (f *file) mask(v isa) {
	if v.wide() {
		f.p("MOVL $1, AX\nSHLL CX, AX\nDECL AX\nKMOVW AX, K1")
		return
	}
	f.p("LEAQ tail256<>+32(SB), AX\nSHLQ $2, CX\nSUBQ CX, AX\nVMOVUPS (AX), %s", maskReg)
}

// rows is the family of routines on rows of fp32.
func rows(v isa) func() *file {
	return func() *file {
		f := newFile(v.file)
		if !v.wide() {
			f.tailMask()
		}
		f.binary(v, "addRow", "VADDPS", "adds a and b.")
		f.binary(v, "mulRow", "VMULPS", "multiplies a by b.")
		f.activation(v, "siluRow", "is x / (1 + e^-x).", f.siluExponent)
		f.activation(v, "geluRow", "is x / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3).", f.geluExponent)
		f.expRow(v)
		f.rotate(v)
		f.sum(v)
		f.squares(v)
		f.columnMoments(v)
		f.center(v)
		for _, s := range scalings {
			f.standardize(v, s)
		}
		f.conversions(v)
		return f
	}
}

func (f *file) binary(v isa, name, op, doc string) {
	f.fn(name+v.name, "dst, a, b unsafe.Pointer, n int", 32, doc)
	f.p("MOVQ dst+0(FP), DI\nMOVQ a+8(FP), SI\nMOVQ b+16(FP), DX\nMOVQ n+24(FP), CX")
	f.overRow(v, 4, []stream{{"DI", 4}, {"SI", 4}, {"DX", 4}}, func(n int, masked bool) {
		for i := range n {
			f.load(v, i*v.width, "SI", i, masked)
			f.load(v, i*v.width, "DX", 4+i, masked)
		}
		for i := range n {
			f.p("%s %s, %s, %s", op, v.reg(4+i), v.reg(i), v.reg(i))
			f.save(v, i, i*v.width, "DI", masked)
		}
	})
	f.ret()
}

// rotate turns pairs. Each cosine and sine serves two lanes: doubled by widening to 64 bits and copying
// the even lanes up.
func (f *file) rotate(v isa) {
	f.fn("rotateRow"+v.name, "dst, src, cos, sin unsafe.Pointer, n int", 40,
		"turns the n/2 pairs of src; n is even.")
	f.p("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ cos+16(FP), DX\nMOVQ sin+24(FP), BX\nMOVQ n+32(FP), CX")
	angle := func(from string, i int, masked bool) {
		switch {
		case v.wide() && masked: // a mask of half as many bits
			f.p("VPMOVZXDQ.Z (%s), K2, Z%d\nVMOVSLDUP Z%d, Z%d", from, i, i, i)
		case masked:
			f.p("VMASKMOVPS (%s), X14, X%d\nVPMOVZXDQ X%d, Y%d\nVMOVSLDUP Y%d, Y%d", from, i, i, i, i, i)
		default:
			f.p("VPMOVZXDQ (%s), %s\nVMOVSLDUP %s, %s", from, v.reg(i), v.reg(i), v.reg(i))
		}
	}
	f.overRow(v, 1, []stream{{"DI", 4}, {"SI", 4}, {"DX", 2}, {"BX", 2}}, func(n int, masked bool) {
		if masked && v.wide() {
			f.p("SHRQ $1, CX\nMOVL $1, AX\nSHLL CX, AX\nDECL AX\nKMOVB AX, K2")
		} else if masked { // CX holds bytes by now
			f.p("LEAQ tail256<>+32(SB), AX\nSHRQ $1, CX\nSUBQ CX, AX\nVMOVUPS (AX), X14")
		}
		f.load(v, 0, "SI", 0, masked)
		angle("DX", 1, masked)
		angle("BX", 2, masked)
		f.p("VPERMILPS $0xb1, %s, %s", v.reg(0), v.reg(3)) // partners
		f.p("VMULPS %s, %s, %s", v.reg(2), v.reg(3), v.reg(3))
		f.p("VFMADDSUB213PS %s, %s, %s", v.reg(3), v.reg(1), v.reg(0)) // even lanes minus, odd plus
		f.save(v, 0, 0, "DI", masked)
	})
	f.ret()
}
