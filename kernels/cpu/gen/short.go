package main

import "fmt"

// Attention over few keys uses transposed scores: a row for each key, with one lane for each of 16 queries. The softmax of 16
// queries then works lane by lane over the rows, and the keys are read in place; only the queries are packed.

// shortWeights512 writes the softmax over the rows. It processes four rows at a time; rows that fill up the last four have weight 0.
func shortWeights512(f *file, name, doc string, poly []float64, bf16 bool) {
	widened := bf16 && f.soft != 0 // bf16 weights are stored as fp32
	bf16 = bf16 && !widened
	const coefficients, top, one, interleave, scale = 20, 27, 28, 29, 31
	f.fn(name, "weights, scores unsafe.Pointer, keys int, scale float32", 28, doc)
	f.p("MOVQ weights+0(FP), DI\nMOVQ scores+8(FP), SI\nMOVQ keys+16(FP), CX\nVBROADCASTSS scale+24(FP), Z%d", scale)
	for i, c := range poly {
		f.constant(isa512, c, coefficients+i)
	}
	f.constant(isa512, 1, one)
	f.bits(isa512, 0xff7fffff, top)
	f.p("MOVQ CX, AX\nSHLQ $6, AX\nADDQ SI, AX") // the row after the last
	f.at("fill")
	f.p("TESTQ $3, CX\nJZ filled\nVMOVUPS Z%d, (AX)\nADDQ $64, AX\nINCQ CX\nJMP fill", top)
	f.at("filled")
	f.p("SHRQ $2, CX\nMOVQ CX, R10\nMOVQ SI, AX")
	for i := range 4 {
		f.p("VMOVAPS Z%d, Z%d", top, i)
	}
	f.at("max")
	for i := range 4 {
		f.p("VMAXPS %d(AX), Z%d, Z%d", i*64, i, i)
	}
	f.p("ADDQ $256, AX\nDECQ CX\nJNZ max")
	f.p("VMAXPS Z0, Z1, Z0\nVMAXPS Z2, Z3, Z2\nVMAXPS Z0, Z2, Z0\nVMULPS Z0, Z%d, Z%d", scale, top)
	f.zero(isa512, 16, 17, 18, 19)
	f.p("MOVQ SI, AX\nMOVQ R10, CX")
	f.at("weigh")
	for i := range 4 {
		f.p("VMOVUPS %d(AX), Z%d\nVFMSUB213PS Z%d, Z%d, Z%d", i*64, i, top, scale, i)
	}
	f.exp2of(poly, coefficients)
	for i := range 4 {
		f.p("VADDPS Z%d, Z%d, Z%d\nVMOVUPS Z%d, %d(AX)", 8+i, 16+i, 16+i, 8+i, i*64)
	}
	f.p("ADDQ $256, AX\nDECQ CX\nJNZ weigh")
	f.p("VADDPS Z17, Z16, Z16\nVADDPS Z19, Z18, Z18\nVADDPS Z18, Z16, Z16\nVDIVPS Z16, Z%d, Z16", one)
	if bf16 {
		f.p("VMOVDQU32 interleave512<>(SB), Z%d", interleave)
	}
	f.p("MOVQ R10, CX")
	f.at("normalize")
	for i := range 4 {
		f.p("VMULPS %d(SI), Z16, Z%d", i*64, i)
	}
	if bf16 {
		for i := range 2 {
			f.p("%s\nVPERMW Z%d, Z%d, Z%d\nVMOVUPS Z%d, %d(DI)", vcvtne2ps2bf16(2*i+1, 2*i, 4+i),
				4+i, interleave, 4+i, 4+i, i*64)
		}
		f.p("ADDQ $128, DI")
	} else {
		for i := range 4 {
			if widened {
				f.stepBF16(i)
			}
			f.p("VMOVUPS Z%d, %d(DI)", i, i*64)
		}
		f.p("ADDQ $256, DI")
	}
	f.p("ADDQ $256, SI\nDECQ CX\nJNZ normalize")
	f.ret()
}

// exp2of computes 2^x of registers 0 to 3 into registers 8 to 11.
func (f *file) exp2of(poly []float64, coefficients int) {
	last := len(poly) - 1
	for i := range 4 {
		f.p("VREDUCEPS $1, Z%d, Z%d\nVMOVAPS Z%d, Z%d", i, 4+i, coefficients+last, 8+i)
	}
	for k := last - 1; k >= 0; k-- {
		for i := range 4 {
			f.p("VFMADD213PS Z%d, Z%d, Z%d", coefficients+k, 4+i, 8+i)
		}
	}
	for i := range 4 {
		f.p("VSCALEFPS Z%d, Z%d, Z%d", i, 8+i, 8+i)
	}
}

// Offsets of the fields of shortValues (../short.go). A test compares them.
const (
	shortDst = 8 * iota
	shortDstStride
	shortWeights
	shortValues
	shortValueStride
	shortTerms
	shortQueries
	shortColumns
)

// shortValues512 writes a routine that adds up the weighted values of up to 16 queries, four queries at a time, in n vectors of
// columns, the last one with a mask, and stores the sums.
func shortValues512(f *file, name, doc string, n int, multiply func(b, a, acc int) string, bf16 bool) {
	pairs := f.soft != 0
	if pairs {
		f.fnFrame(name, "s *shortValues", "", flushFrame, 8, doc)
		f.flush()
	} else {
		f.fn(name, "s *shortValues", 8, doc)
	}
	f.p("MOVQ s+0(FP), DX\nMOVQ %d(DX), DI\nMOVQ %d(DX), R8", shortDst, shortDstStride)
	f.p("MOVQ %d(DX), SI\nMOVQ %d(DX), R9\nMOVQ %d(DX), R10", shortWeights, shortValueStride, shortQueries)
	f.p("MOVQ %d(DX), CX\nSUBQ $%d, CX", shortColumns, 16*(n-1))
	f.p("MOVL $1, AX\nSHLL CX, AX\nDECL AX\nKMOVW AX, K1") // columns of the last vector
	f.at("group")
	f.p("MOVQ %d(DX), BX\nMOVQ %d(DX), CX\nMOVQ SI, R11", shortValues, shortTerms)
	acc := func(q, j int) int { return 12 + q*n + j }
	for q := range 4 {
		for j := range n {
			f.zero(isa512, acc(q, j))
		}
	}
	f.at("term")
	term := func(weights int) {
		for j := range n {
			f.load(isa512, j*64, "BX", j, j == n-1)
		}
		for q := range 4 {
			f.p("VBROADCASTSS %d(R11), Z%d", weights+4*q, 5+q)
			for j := range n {
				f.p("%s", multiply(j, 5+q, acc(q, j)))
			}
		}
	}
	if pairs { // the second of a pair comes first
		f.p("ADDQ R9, BX")
		term(64)
		f.p("SUBQ R9, BX")
		term(0)
		f.p("LEAQ (BX)(R9*2), BX\nADDQ $128, R11\nSUBQ $2, CX\nJNZ term")
	} else {
		term(0)
		f.p("ADDQ R9, BX\nADDQ $64, R11\nDECQ CX\nJNZ term")
	}
	for q := range 4 {
		for j := range n {
			r := acc(q, j)
			switch {
			case bf16 && j == n-1:
				f.toBF16(r, r)
				f.p("VMOVDQU16 Y%d, K1, %d(DI)", r, j*32)
			case bf16:
				f.toBF16(r, 9)
				f.p("VMOVDQU Y%d, %d(DI)", 9, j*32)
			default:
				f.save(isa512, r, j*64, "DI", j == n-1)
			}
		}
		f.p("ADDQ R8, DI\nDECQ R10\nJZ done")
	}
	f.p("ADDQ $16, SI\nJMP group")
	f.at("done")
	if pairs {
		f.restore()
	}
	f.ret()
}

// short512 is the family of attention over few keys.
func short512() *file {
	f := newFile("short_avx512")
	for i := range 16 { // alternates words of a low and a high vector
		f.data("interleave512<>", 4*i, uint32(i|(i+16)<<16))
	}
	f.global("interleave512<>", 64)
	shortWeights512(f, "shortWeightsF32512", "turns the scores of 16 queries into fp32 weights. It overwrites the scores.",
		exp2Degree5, false)
	shortWeights512(f, "shortWeightsBF16512", "turns the scores of 16 queries into pairs of bf16 weights. It overwrites the scores.",
		exp2Degree4, true)
	copyRows512(f)
	prefetchRows(f)
	for _, k := range []struct {
		name     string
		multiply func(b, a, acc int) string
		half     bool
	}{{"shortF32", fma512, false}, {"shortBF16toF32", vdpbf16ps, false}, {"shortBF16", vdpbf16ps, true}} {
		f.shortTable(k.name, k.multiply, k.half)
	}
	return f
}

// shortTable writes shortValues512 for each number of vectors of columns.
func (f *file) shortTable(kind string, multiply func(b, a, acc int) string, half bool) {
	f.goCode("\n// %s512 holds the routines by the number of vectors of columns.\nvar %s512 = [...]func(*shortValues){", kind, kind)
	for n := 1; n <= 5; n++ {
		name := fmt.Sprintf("%s512x%d", kind, n)
		shortValues512(f, name, fmt.Sprintf("adds weighted values, %d vectors of columns.", n), n, multiply, half)
		f.goCode("\t%d: %s,", n, name)
	}
	f.goCode("}")
}

// copyRows512 writes a routine that copies rows of any number of bytes. The last vector of a row is padded with zeros.
func copyRows512(f *file) {
	f.fn("copyRows512", "dst, src unsafe.Pointer, dstStride, srcStride, rows, bytes int", 48,
		"copies rows and fills up the last 64 bytes of each with zeros.")
	f.p("MOVQ dst+0(FP), DI\nMOVQ src+8(FP), SI\nMOVQ dstStride+16(FP), R8\nMOVQ srcStride+24(FP), R9")
	f.p("MOVQ rows+32(FP), R10\nMOVQ bytes+40(FP), R11\nMOVQ R11, CX\nANDQ $63, CX")
	f.p("MOVQ $1, AX\nSHLQ CX, AX\nDECQ AX\nKMOVQ AX, K1\nSHRQ $6, R11")
	f.at("row")
	f.p("MOVQ SI, AX\nMOVQ DI, BX\nMOVQ R11, CX\nTESTQ CX, CX\nJZ last")
	f.at("vector")
	f.p("VMOVDQU64 (AX), Z0\nVMOVDQU64 Z0, (BX)\nADDQ $64, AX\nADDQ $64, BX\nDECQ CX\nJNZ vector")
	f.at("last")
	f.p("KTESTQ K1, K1\nJZ next\nVMOVDQU8.Z (AX), K1, Z0\nVMOVDQU64 Z0, (BX)")
	f.at("next")
	f.p("ADDQ R9, SI\nADDQ R8, DI\nDECQ R10\nJNZ row")
	f.ret()
}

// prefetchRows writes a routine that prefetches rows.
func prefetchRows(f *file) {
	f.fn("prefetchRows", "src unsafe.Pointer, stride, rows, bytes int", 32, "loads rows into the second cache.")
	f.p("MOVQ src+0(FP), SI\nMOVQ stride+8(FP), R9\nMOVQ rows+16(FP), R10\nMOVQ bytes+24(FP), R11")
	f.at("row")
	f.p("MOVQ SI, AX\nLEAQ (SI)(R11*1), CX")
	f.at("line")
	f.p("PREFETCHT1 (AX)\nADDQ $64, AX\nCMPQ AX, CX\nJLS line\nADDQ R9, SI\nDECQ R10\nJNZ row\nRET")
}
