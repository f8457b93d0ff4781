package main

import "fmt"

// short256 is the family of attention over few keys for AVX2: fp32, panels of two vectors.
func short256() *file {
	f := newFile("short_avx2")
	f.softmaxTables256()
	shortWeights256(f)
	shortValues256(f, "shortF32256x2", false)
	copyRows256(f)
	f.goCode("\n// shortF32256 holds the routines by the number of vectors of columns.")
	f.goCode("var shortF32256 = [...]func(*shortValues){2: shortF32256x2}")
	return f
}

// shortWeights256 is shortWeights512 for AVX2: first 8 queries, then 8 more, two keys at a time.
func shortWeights256(f *file) {
	const top, lowest, scale, bound, one = 8, 11, 12, 13, 14
	poly := func(k int) string { return fmt.Sprintf("exp2poly<>+%d(SB)", 32*k) }
	f.fn("shortWeights256", "weights, scores unsafe.Pointer, keys int, scale float32", 28,
		"turns the scores of 16 queries into fp32 weights. It overwrites the scores.")
	f.p("MOVQ weights+0(FP), DI\nMOVQ scores+8(FP), SI\nMOVQ keys+16(FP), R10\nVBROADCASTSS scale+24(FP), Y%d", scale)
	f.bits(isa256, 0xff7fffff, lowest)
	f.constant(isa256, -126, bound)
	f.constant(isa256, 1, one)
	f.p("TESTQ $1, R10\nJZ filled\nMOVQ R10, AX\nSHLQ $6, AX")
	f.p("VMOVUPS Y%d, (SI)(AX*1)\nVMOVUPS Y%d, 32(SI)(AX*1)\nINCQ R10", lowest, lowest)
	f.at("filled")
	f.p("SHRQ $1, R10\nMOVQ $2, R11")
	f.at("half")
	f.p("MOVQ SI, AX\nMOVQ R10, CX\nVMOVAPS Y%d, Y0\nVMOVAPS Y%d, Y1", lowest, lowest)
	f.at("max")
	f.p("VMAXPS (AX), Y0, Y0\nVMAXPS 64(AX), Y1, Y1\nADDQ $128, AX\nDECQ CX\nJNZ max")
	f.p("VMAXPS Y0, Y1, Y0\nVMULPS Y0, Y%d, Y%d", scale, top)
	f.zero(isa256, 6, 7)
	f.p("MOVQ SI, AX\nMOVQ R10, CX")
	f.at("weigh")
	for i := range 2 {
		f.p("VMOVUPS %d(AX), Y%d\nVFMSUB213PS Y%d, Y%d, Y%d", i*64, i, top, scale, i)
	}
	for i := range 2 {
		f.exp2of256(poly, bound, i, 2+i, 4+i)
		f.p("VADDPS Y%d, Y%d, Y%d\nVMOVUPS Y%d, %d(AX)", 4+i, 6+i, 6+i, 4+i, i*64)
	}
	f.p("ADDQ $128, AX\nDECQ CX\nJNZ weigh")
	f.p("VADDPS Y7, Y6, Y6\nVDIVPS Y6, Y%d, Y6\nMOVQ SI, AX\nMOVQ DI, BX\nMOVQ R10, CX", one)
	f.at("normalize")
	for i := range 2 {
		f.p("VMULPS %d(AX), Y6, Y%d\nVMOVUPS Y%d, %d(BX)", i*64, i, i, i*64)
	}
	f.p("ADDQ $128, AX\nADDQ $128, BX\nDECQ CX\nJNZ normalize")
	f.p("ADDQ $32, SI\nADDQ $32, DI\nDECQ R11\nJNZ half")
	f.ret()
}

// shortValues256 is shortValues512 for AVX2 and up to 16 columns. Whole vectors are stored without masks, because masked stores are slow.
func shortValues256(f *file, name string, pairs bool) {
	const doc = "adds weighted values, up to 2 vectors of columns."
	if pairs {
		f.fnFrame(name, "s *shortValues", "", flushFrame, 8, doc)
		f.flush()
	} else {
		f.fn(name, "s *shortValues", 8, doc)
	}
	f.p("MOVQ s+0(FP), DX\nMOVQ %d(DX), DI\nMOVQ %d(DX), R8", shortDst, shortDstStride)
	f.p("MOVQ %d(DX), SI\nMOVQ %d(DX), R9\nMOVQ %d(DX), R10", shortWeights, shortValueStride, shortQueries)
	f.p("MOVQ %d(DX), CX\nCMPQ CX, $16\nJEQ group2\nCMPQ CX, $8\nJEQ group1", shortColumns)
	f.p("LEAQ softmask<>+64(SB), AX\nSHLQ $2, CX\nSUBQ CX, AX\nVMOVUPS (AX), Y14\nVMOVUPS 32(AX), Y15")
	f.shortGroups256("0", 2, true, pairs)
	f.shortGroups256("1", 1, false, pairs)
	f.shortGroups256("2", 2, false, pairs)
	f.at("done")
	if pairs {
		f.restore()
	}
	f.ret()
}

// shortGroups256 writes the loop over groups of four queries, with n vectors of columns.
func (f *file) shortGroups256(label string, n int, masked, pairs bool) {
	acc := func(q, j int) int { return 4 + 2*q + j }
	broadcast := []int{2, 3, 12, 13}
	f.at("group" + label)
	f.p("MOVQ %d(DX), BX\nMOVQ %d(DX), CX\nMOVQ SI, R11", shortValues, shortTerms)
	for q := range 4 {
		for j := range n {
			f.zero(isa256, acc(q, j))
		}
	}
	f.at("term" + label)
	term := func(weights int) {
		for j := range n {
			if masked {
				f.p("VMASKMOVPS %d(BX), Y%d, Y%d", j*32, 14+j, j)
			} else {
				f.p("VMOVUPS %d(BX), Y%d", j*32, j)
			}
		}
		for q, b := range broadcast {
			f.p("VBROADCASTSS %d(R11), Y%d", weights+4*q, b)
			for j := range n {
				f.p("%s", fma256(j, b, acc(q, j)))
			}
		}
	}
	if pairs { // the second of a pair comes first
		f.p("ADDQ R9, BX")
		term(64)
		f.p("SUBQ R9, BX")
		term(0)
		f.p("LEAQ (BX)(R9*2), BX\nADDQ $128, R11\nSUBQ $2, CX\nJNZ term%s", label)
	} else {
		term(0)
		f.p("ADDQ R9, BX\nADDQ $64, R11\nDECQ CX\nJNZ term%s", label)
	}
	for q := range 4 {
		for j := range n {
			if masked {
				f.p("VMASKMOVPS Y%d, Y%d, %d(DI)", acc(q, j), 14+j, j*32)
			} else {
				f.p("VMOVUPS Y%d, %d(DI)", acc(q, j), j*32)
			}
		}
		f.p("ADDQ R8, DI\nDECQ R10\nJZ done")
	}
	f.p("ADDQ $16, SI\nJMP group%s", label)
}

// copyRows256 writes a routine that copies rows of whole vectors.
func copyRows256(f *file) {
	f.fn("copyRows256", "dst, src unsafe.Pointer, dstStride, srcStride, rows, vectors int", 48,
		"copies rows of the given number of 32-byte vectors. After an odd number it writes 32 bytes of zeros.")
	f.p("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ dstStride+16(FP), R8\nMOVQ srcStride+24(FP), R9")
	f.p("MOVQ rows+32(FP), R10\nMOVQ vectors+40(FP), R11")
	f.zero(isa256, 1)
	f.at("row")
	f.p("MOVQ SI, AX\nMOVQ DI, BX\nMOVQ R11, CX")
	f.at("vector")
	f.p("VMOVUPS (AX), Y0\nVMOVUPS Y0, (BX)\nADDQ $32, AX\nADDQ $32, BX\nDECQ CX\nJNZ vector")
	f.p("TESTQ $1, R11\nJZ next\nVMOVUPS Y1, (BX)")
	f.at("next")
	f.p("ADDQ R9, SI\nADDQ R8, DI\nDECQ R10\nJNZ row")
	f.ret()
}
