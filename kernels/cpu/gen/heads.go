package main

import "fmt"

// Rows of a head are short, so a call for each row would cost more than its arithmetic. These routines process the rows of all
// heads of a token and give the same bits as the routines on single rows.

// part says which lanes of a vector are used: all, the lower half, or those of the tail mask.
type part int

const (
	whole part = iota
	half
	tail
)

// overHead is overRow for rows of heads, in place. For the processor, a masked store overlaps the next row, so loading that row
// waits for the store. Therefore half a vector, as heads of 72 elements need, is stored without a mask.
func (f *file) overHead(unroll int, streams []stream, body func(n int, p part)) {
	f.overRow(isa512, unroll, streams, func(n int, masked bool) {
		if !masked {
			body(n, whole)
			return
		}
		f.label++
		f.p("CMPQ CX, $8\nJNE odd%d", f.label)
		end := f.label
		body(1, half)
		f.p("JMP end%d", end)
		f.at(fmt.Sprint("odd", end))
		body(1, tail)
		f.at(fmt.Sprint("end", end))
	})
}

// loadAs reads 16 fp32 or bf16 at off(ptr) as fp32.
func (f *file) loadAs(bf16 bool, off int, ptr string, i int, p part) {
	switch {
	case !bf16 && p == half:
		f.p("VMOVUPS %d(%s), Y%d", off*4, ptr, i)
	case !bf16:
		f.load(isa512, off*4, ptr, i, p == tail)
	case p == half:
		f.p("VPMOVZXWD %d(%s), Y%d\nVPSLLD $16, Y%d, Y%d", off*2, ptr, i, i, i)
	case p == tail:
		f.p("VPMOVZXWD.Z %d(%s), K1, Z%d\nVPSLLD $16, Z%d, Z%d", off*2, ptr, i, i, i)
	default:
		f.p("VPMOVZXWD %d(%s), Z%d\nVPSLLD $16, Z%d, Z%d", off*2, ptr, i, i, i)
	}
}

// saveAs writes register i as fp32 or bf16. With bf16 it overwrites registers 4+i and 8+i.
func (f *file) saveAs(bf16 bool, i, off int, ptr string, p part) {
	switch {
	case !bf16 && p == half:
		f.p("VMOVUPS Y%d, %d(%s)", i, off*4, ptr)
	case !bf16:
		f.save(isa512, i, off*4, ptr, p == tail)
	case p == half:
		f.roundBF16(isa512, i, 4+i, 8+i)
		f.p("VPMOVDW Y%d, %d(%s)", 4+i, off*2, ptr)
	default:
		f.saveBF16(ptr, i, 4+i, 8+i, off*2, p == tail)
	}
}

// doubleAs reads 8 fp32 or bf16 at off(ptr) as float64.
func (f *file) doubleAs(bf16 bool, off int, ptr string, i int, masked bool) {
	if !bf16 {
		f.double(isa512, off*4, ptr, i, masked)
		return
	}
	if masked {
		f.p("VPMOVZXWD.Z %d(%s), K1, Y%d", off*2, ptr, i)
	} else {
		f.p("VPMOVZXWD %d(%s), Y%d", off*2, ptr, i)
	}
	f.p("VPSLLD $16, Y%d, Y%d\nVCVTPS2PD Y%d, Z%d", i, i, i, i)
}

// heads512 is the family of rows of heads for AVX-512.
func heads512() *file {
	f := newFile("heads_avx512")
	f.rmsHeads("rmsHeads512F32", "normalises rows of fp32.", false, false)
	f.rmsHeads("rmsHeads512BF16", "normalises rows of bf16, rounding each step to bf16.", true, false)
	f.rmsHeads("rmsSilu512F32", "normalises rows of fp32 and applies SiLU.", false, true)
	f.rmsHeads("rmsSilu512BF16", "normalises rows of bf16 and applies SiLU, rounding each step to bf16.", true, true)
	f.rotateHeads("rotateHeads512F32", "rotates rows of fp32.", false)
	f.rotateHeads("rotateHeads512BF16", "rotates rows of bf16, rounding each step to bf16.", true)
	return f
}

// rmsHeads computes what squaresRow, weighRow and siluRow compute.
func (f *file) rmsHeads(name, doc string, bf16, silu bool) {
	const count, eps, one, minus = 17, 18, 19, 15 // registers of constants
	size, unroll := 4, 4
	if bf16 {
		size = 2
	}
	if silu { // the exponential needs registers
		unroll = 2
	}
	f.fn(name, "dst, src unsafe.Pointer, dstStride, srcStride, rows int, weight []float32, eps float64", 72, doc)
	f.p("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ dstStride+16(FP), R8\nMOVQ srcStride+24(FP), R9")
	f.p("MOVQ rows+32(FP), R10\nMOVQ weight_base+40(FP), R11\nMOVQ weight_len+48(FP), R12")
	f.p("VCVTSI2SDQ R12, X%d, X%d\nVMOVSD eps+64(FP), X%d\nMOVQ $0x3ff0000000000000, AX\nVMOVQ AX, X%d", count, count, eps, one)
	if bf16 {
		f.loadRounding(isa512)
	}
	if silu {
		f.loadExp(isa512)
		f.constant(isa512, -1, minus)
	}
	f.at("row")
	f.zero(isa512, 0, 1, 2, 3)
	f.p("MOVQ SI, DX\nMOVQ R12, CX")
	f.overLanes(isa512, 8, 4, []stream{{"DX", size}}, func(n int, masked bool) {
		for i := range n {
			f.doubleAs(bf16, i*8, "DX", 4+i, masked)
			f.p("VFMADD231PD Z%d, Z%d, Z%d", 4+i, 4+i, i)
		}
	})
	f.foldLanes(isa512)
	f.p("VDIVSD X%d, X0, X0\nVADDSD X%d, X0, X0\nVSQRTSD X0, X0, X0\nVDIVSD X0, X%d, X0\nVCVTSD2SS X0, X0, X0", count, eps, one)
	f.p("VBROADCASTSS X0, Z16\nMOVQ SI, DX\nMOVQ DI, R13\nMOVQ R11, BX\nMOVQ R12, CX")
	f.overHead(unroll, []stream{{"DX", size}, {"R13", size}, {"BX", 4}}, func(n int, p part) {
		for i := range n {
			f.loadAs(bf16, i*16, "DX", i, p)
			f.p("VMULPS Z16, Z%d, Z%d", i, i)
			if bf16 {
				f.stepBF16(i)
			}
			f.loadAs(false, i*16, "BX", 4+i, p)
			f.p("VMULPS Z%d, Z%d, Z%d", 4+i, i, i)
			if bf16 && silu {
				f.stepBF16(i)
			}
		}
		if silu {
			f.siluOf(vectors(0, n), vectors(2, n), vectors(6, n), vectors(10, n), minus)
		}
		for i := range n {
			f.saveAs(bf16, i, i*16, "R13", p)
		}
	})
	f.p("ADDQ R8, DI\nADDQ R9, SI\nDECQ R10\nJNZ row")
	f.ret()
}

// siluOf is siluRow for the vectors x in registers. It overwrites t, p and spare.
func (f *file) siluOf(x, t, p, spare []int, minus int) {
	for i := range x {
		f.p("VMULPS Z%d, Z%d, Z%d", x[i], minus, t[i])
	}
	f.exp(isa512, t, p, spare)
	for i := range x {
		f.p("VADDPS %s, Z%d, Z%d\nVDIVPS Z%d, Z%d, Z%d", expAt(isa512, expOne), p[i], p[i], p[i], x[i], x[i])
	}
}

// rotateHeads computes what rotateRow and rotateRowBF16 compute.
func (f *file) rotateHeads(name, doc string, bf16 bool) {
	size := 4
	if bf16 {
		size = 2
	}
	f.fn(name, "dst, src unsafe.Pointer, dstStride, srcStride, rows int, cos, sin []float32", 88, doc)
	f.p("MOVQ dst+0(FP), R12\nMOVQ src+8(FP), R13\nMOVQ dstStride+16(FP), R8\nMOVQ srcStride+24(FP), R9")
	f.p("MOVQ rows+32(FP), R10")
	if bf16 {
		f.loadRounding(isa512)
		f.constant(isa512, 1, 15)
	}
	f.at("row")
	f.p("MOVQ R12, DI\nMOVQ R13, SI\nMOVQ cos_base+40(FP), DX\nMOVQ sin_base+64(FP), BX")
	f.p("MOVQ cos_len+48(FP), CX\nADDQ CX, CX")
	streams := []stream{{"DI", size}, {"SI", size}, {"DX", 2}, {"BX", 2}}
	f.overHead(1, streams, func(_ int, p part) {
		f.loadAs(bf16, 0, "SI", 0, p)
		f.rotation(isa512, p)
		if bf16 {
			f.addRotatedBF16()
		} else {
			f.p("VFMADDSUB213PS Z3, Z1, Z0") // even lanes minus, odd plus
		}
		f.saveAs(bf16, 0, 0, "DI", p)
	})
	f.p("ADDQ R8, R12\nADDQ R9, R13\nDECQ R10\nJNZ row")
	f.ret()
}
