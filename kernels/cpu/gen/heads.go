package main

// Rows of a head are short: a call for each would cost more than its arithmetic. These routines take the rows
// of all heads of a token, one after the other, and give the bits of the routines on single rows.

// loadAs reads 16 fp32 or bf16 at off(ptr) as fp32.
func (f *file) loadAs(bf16 bool, off int, ptr string, i int, masked bool) {
	switch {
	case !bf16:
		f.load(isa512, off*4, ptr, i, masked)
	case masked:
		f.p("VPMOVZXWD.Z %d(%s), K1, Z%d\nVPSLLD $16, Z%d, Z%d", off*2, ptr, i, i, i)
	default:
		f.p("VPMOVZXWD %d(%s), Z%d\nVPSLLD $16, Z%d, Z%d", off*2, ptr, i, i, i)
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
	f.rmsHeads("rmsHeads512F32", "normalises rows of fp32.", false)
	f.rmsHeads("rmsHeads512BF16", "normalises rows of bf16, each step rounded to it.", true)
	f.rotateHeads("rotateHeads512F32", "turns rows of fp32.", false)
	f.rotateHeads("rotateHeads512BF16", "turns rows of bf16, each step rounded to it.", true)
	return f
}

// rmsHeads follows squaresRow and weighRow.
func (f *file) rmsHeads(name, doc string, bf16 bool) {
	size := 4
	if bf16 {
		size = 2
	}
	f.fn(name, "dst, src unsafe.Pointer, dstStride, srcStride, rows int, weight []float32, eps float64", 72, doc)
	f.p("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ dstStride+16(FP), R8\nMOVQ srcStride+24(FP), R9")
	f.p("MOVQ rows+32(FP), R10\nMOVQ weight_base+40(FP), R11\nMOVQ weight_len+48(FP), R12")
	f.p("VCVTSI2SDQ R12, X24, X24\nVMOVSD eps+64(FP), X25\nVXORPD X27, X27, X27\nMOVQ $0x3ff0000000000000, AX\nVMOVQ AX, X26")
	if bf16 {
		f.loadRounding(isa512)
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
	f.p("VDIVSD X24, X0, X0\nVADDSD X25, X0, X0\nVSQRTSD X0, X0, X0\nVDIVSD X0, X26, X0\nVCVTSD2SS X0, X0, X0")
	f.p("VBROADCASTSS X0, Z16\nMOVQ SI, DX\nMOVQ DI, R13\nMOVQ R11, BX\nMOVQ R12, CX")
	f.overRow(isa512, 4, []stream{{"DX", size}, {"R13", size}, {"BX", 4}}, func(n int, masked bool) {
		for i := range n {
			f.loadAs(bf16, i*16, "DX", i, masked)
			f.p("VMULPS Z16, Z%d, Z%d", i, i)
			if bf16 {
				f.stepBF16(i)
			}
			f.load(isa512, i*64, "BX", 4+i, masked)
			f.p("VMULPS Z%d, Z%d, Z%d", 4+i, i, i)
			if bf16 {
				f.saveBF16("R13", i, 4+i, 8+i, i*32, masked)
			} else {
				f.save(isa512, i, i*64, "R13", masked)
			}
		}
	})
	f.p("ADDQ R8, DI\nADDQ R9, SI\nDECQ R10\nJNZ row")
	f.ret()
}

// rotateHeads follows rotateRow and rotateRowBF16.
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
	f.p("MOVQ R12, DI\nMOVQ R13, SI\nMOVQ cos_base+40(FP), DX\nMOVQ cos_len+48(FP), CX\nADDQ CX, CX\nMOVQ sin_base+64(FP), BX")
	streams := []stream{{"DI", size}, {"SI", size}, {"DX", 2}, {"BX", 2}}
	f.overRow(isa512, 1, streams, func(_ int, masked bool) {
		f.rotation(isa512, bf16, masked)
		if !bf16 {
			f.p("VFMADDSUB213PS Z3, Z1, Z0")
			f.save(isa512, 0, 0, "DI", masked)
			return
		}
		f.turnBF16()
		f.saveBF16("DI", 0, 1, 2, 0, masked)
	})
	f.p("ADDQ R8, R12\nADDQ R9, R13\nDECQ R10\nJNZ row")
	f.ret()
}
