package main

import (
	"fmt"
	"strings"
)

// Sums of fp32 are computed in float64. Element i is added to lane i modulo the lanes of 4 vectors. At the end lanes are added in
// halves. So the order of additions depends on the length only.

// double loads fp32 at off(ptr) as a vector of float64. Lanes after the tail are zero.
func (f *file) double(v isa, off int, ptr string, i int, masked bool) {
	switch {
	case !masked:
		f.p("VCVTPS2PD %d(%s), %s", off, ptr, v.reg(i))
	case v.wide():
		f.p("VCVTPS2PD.Z %d(%s), K1, Z%d", off, ptr, i)
	default:
		f.p("VMASKMOVPS %d(%s), X15, X%d\nVCVTPS2PD X%d, Y%d", off, ptr, i, i, i)
	}
}

// doubles returns the number of float64 in a vector.
func (v isa) doubles() int { return v.width / 8 }

// addLanes adds the registers 0 to 3 of float64 and then their lanes, and returns the sum at ret.
func (f *file) addLanes(v isa, ret int) {
	f.foldLanes(v)
	f.p("VMOVSD X0, ret+%d(FP)", ret)
	f.ret()
}

// foldLanes adds all lanes of the registers 0 to 3 into X0.
func (f *file) foldLanes(v isa) {
	f.p("VADDPD %s, %s, %s", v.reg(1), v.reg(0), v.reg(0))
	f.p("VADDPD %s, %s, %s", v.reg(3), v.reg(2), v.reg(2))
	f.p("VADDPD %s, %s, %s", v.reg(2), v.reg(0), v.reg(0))
	if v.wide() {
		f.p("VEXTRACTF64X4 $1, Z0, Y1\nVADDPD Y1, Y0, Y0")
	}
	f.p("VEXTRACTF128 $1, Y0, X1\nVADDPD X1, X0, X0\nVUNPCKHPD X0, X0, X1\nVADDSD X1, X0, X0")
}

func (f *file) zero(v isa, registers ...int) {
	for _, i := range registers {
		f.p("%s %s, %s, %s", v.xor(), v.reg(i), v.reg(i), v.reg(i))
	}
}

func (f *file) sum(v isa) {
	f.fnResult("sumRow"+v.name, "src []float32", "float64", 32, "adds the elements of src.")
	f.p("MOVQ src_base+0(FP), SI\nMOVQ src_len+8(FP), CX")
	f.zero(v, 0, 1, 2, 3)
	f.overLanes(v, v.doubles(), 4, []stream{{"SI", 4}}, func(n int, masked bool) {
		for i := range n {
			f.double(v, i*v.width/2, "SI", 4+i, masked)
			f.p("VADDPD %s, %s, %s", v.reg(4+i), v.reg(i), v.reg(i))
		}
	})
	f.addLanes(v, 24)
}

func (f *file) squares(v isa) {
	f.fnResult("squaresRow"+v.name, "src []float32, mean float64", "float64", 40,
		"adds the squares of the differences from mean.")
	f.p("MOVQ src_base+0(FP), SI\nMOVQ src_len+8(FP), CX\nVBROADCASTSD mean+24(FP), %s", v.reg(8))
	f.zero(v, 0, 1, 2, 3)
	f.overLanes(v, v.doubles(), 4, []stream{{"SI", 4}}, func(n int, masked bool) {
		for i := range n {
			f.double(v, i*v.width/2, "SI", 4+i, masked)
			d := v.reg(4 + i)
			if masked && v.wide() {
				f.p("VSUBPD.Z Z8, %s, K1, %s", d, d)
			} else {
				f.p("VSUBPD %s, %s, %s", v.reg(8), d, d)
			}
			if masked && !v.wide() {
				f.p("VPMOVSXDQ X15, Y14\nVANDPD Y14, %s, %s", d, d)
			}
			f.p("VFMADD231PD %s, %s, %s", d, d, v.reg(i))
		}
	})
	f.addLanes(v, 32)
}

// columnMoments keeps the sums of some columns in registers while it loops over the rows.
func (f *file) columnMoments(v isa) {
	f.fn("columnMoments"+v.name, "sums, squares []float64, src []float32, rows, stride int", 88,
		"adds the elements of each column and their squares; rows are stride elements apart.")
	f.p("MOVQ sums_base+0(FP), DI\nMOVQ sums_len+8(FP), CX\nMOVQ squares_base+24(FP), DX")
	f.p("MOVQ src_base+48(FP), SI\nMOVQ rows+72(FP), R10\nMOVQ stride+80(FP), R8\nSHLQ $2, R8")
	streams := []stream{{"SI", 4}, {"DI", 8}, {"DX", 8}}
	f.overLanes(v, v.doubles(), 4, streams, func(n int, masked bool) {
		f.zero(v, vectors(0, 2*n)...)
		f.label++
		f.p("MOVQ SI, R9\nMOVQ R10, R11")
		f.at(fmt.Sprint("row", f.label))
		for i := range n {
			d := v.reg(8 + i)
			f.double(v, i*v.width/2, "R9", 8+i, masked)
			f.p("VADDPD %s, %s, %s\nVFMADD231PD %s, %s, %s", d, v.reg(i), v.reg(i), d, d, v.reg(n+i))
		}
		f.p("ADDQ R8, R9\nDECQ R11\nJNZ row%d", f.label)
		if masked && !v.wide() {
			f.p("VPMOVSXDQ X15, Y14")
		}
		for i := range 2 * n {
			off, ptr := i%n*v.width, "DI"
			if i >= n {
				ptr = "DX"
			}
			switch {
			case !masked:
				f.p("VMOVUPD %s, %d(%s)", v.reg(i), off, ptr)
			case v.wide():
				f.p("VMOVUPD Z%d, K1, %d(%s)", i, off, ptr)
			default:
				f.p("VMASKMOVPD Y%d, Y14, %d(%s)", i, off, ptr)
			}
		}
	})
	f.ret()
}

// center is the last step of GroupNorm. Mean and factors belong to a channel.
func (f *file) center(v isa) {
	f.fn("centerRow"+v.name, "dst, src, mean, a, b []float32", 120, "computes (src - mean) a + b.")
	f.p("MOVQ dst_base+0(FP), DI\nMOVQ dst_len+8(FP), CX\nMOVQ src_base+24(FP), SI")
	f.p("MOVQ mean_base+48(FP), DX\nMOVQ a_base+72(FP), BX\nMOVQ b_base+96(FP), R8")
	streams := []stream{{"DI", 4}, {"SI", 4}, {"DX", 4}, {"BX", 4}, {"R8", 4}}
	f.overRow(v, 2, streams, func(n int, masked bool) {
		for i := range n {
			for j, ptr := range []string{"SI", "DX", "BX", "R8"} {
				f.load(v, i*v.width, ptr, 4*i+j, masked)
			}
			x := v.reg(4 * i)
			f.p("VSUBPS %s, %s, %s", v.reg(4*i+1), x, x)
			f.p("VFMADD213PS %s, %s, %s", v.reg(4*i+3), v.reg(4*i+2), x)
			f.save(v, 4*i, i*v.width, "DI", masked)
		}
	})
	f.ret()
}

// scaling describes the operands that standardize applies to a row after it has mean 0 and variance 1.
type scaling struct {
	name, doc string
	operands  []string
	one       bool // 1 + a
}

var scalings = []scaling{
	{"standardRow", "computes s = (src - mean) factor.", nil, false},
	{"weighRow", "computes s a, s = (src - mean) factor.", []string{"a"}, false},
	{"affineRow", "computes s a + b, s = (src - mean) factor.", []string{"a", "b"}, false},
	{"modulateRow", "computes s (1 + a) + b, s = (src - mean) factor.", []string{"a", "b"}, true},
}

func (f *file) standardize(v isa, s scaling) {
	params := strings.Join(append([]string{"dst", "src"}, s.operands...), ", ") + " []float32"
	n := 48 + 24*len(s.operands)
	f.fn(s.name+v.name, params+", mean, factor float32", n+8, s.doc)
	f.p("MOVQ dst_base+0(FP), DI\nMOVQ dst_len+8(FP), CX\nMOVQ src_base+24(FP), SI")
	f.p("VBROADCASTSS mean+%d(FP), %s\nVBROADCASTSS factor+%d(FP), %s", n, v.reg(12), n+4, v.reg(13))
	streams := []stream{{"DI", 4}, {"SI", 4}}
	for i, operand := range s.operands {
		ptr := []string{"DX", "BX"}[i]
		f.p("MOVQ %s_base+%d(FP), %s", operand, 48+24*i, ptr)
		streams = append(streams, stream{ptr, 4})
	}
	if s.one {
		f.constant(v, 1, 14)
	}
	f.overRow(v, 4, streams, func(n int, masked bool) {
		for i := range n {
			x, a, b := v.reg(i), v.reg(4+i), v.reg(8+i)
			f.load(v, i*v.width, "SI", i, masked)
			f.p("VSUBPS %s, %s, %s\nVMULPS %s, %s, %s", v.reg(12), x, x, v.reg(13), x, x)
			if len(s.operands) > 0 {
				f.load(v, i*v.width, "DX", 4+i, masked)
			}
			if len(s.operands) > 1 {
				f.load(v, i*v.width, "BX", 8+i, masked)
			}
			if s.one {
				f.p("VADDPS %s, %s, %s", v.reg(14), a, a)
			}
			switch len(s.operands) {
			case 1:
				f.p("VMULPS %s, %s, %s", a, x, x)
			case 2:
				f.p("VFMADD213PS %s, %s, %s", b, a, x)
			}
			f.save(v, i, i*v.width, "DI", masked)
		}
	})
	f.ret()
}
