package main

import "fmt"

// Offsets of the fields of softmax (../softmax.go). A test compares them.
const (
	softScores = 8 * iota
	softStride
	softWeights
	softWeightStride
	softRows
	softKeys
	softTop
	softSum
	softRescale
	softScale // fp32
)

// Minimax polynomials of 2^r for 0 <= r < 1, lowest power first. Their relative errors are 2.7e-6, which is enough for weights that
// are rounded to bf16, and 7.5e-8.
var (
	exp2Degree4 = []float64{1.0000026226043701, 0.6930038332939148, 0.2414427548646927, 0.052011460065841675,
		0.013534166850149632}
	exp2Degree5 = []float64{0.9999999403953552, 0.6931530833244324, 0.24015361070632935, 0.05582631751894951,
		0.008989340625703335, 0.0018775765784084797}
)

// softmax512 writes the softmax of a block of scores for AVX-512. It processes four vectors of keys at a time, the last ones with
// masks. Sums are in four times 16 lanes, which are added in halves.
func (f *file) softmax512(name, doc string, poly []float64, bf16 bool) {
	const coefficients, lowest, top, scale = 20, 26, 29, 31 // registers
	f.fn(name, "s *softmax", 8, doc)
	f.p("MOVQ s+0(FP), DX\nMOVQ %d(DX), SI\nMOVQ %d(DX), R8", softScores, softStride)
	f.p("MOVQ %d(DX), DI\nMOVQ %d(DX), R9", softWeights, softWeightStride)
	f.p("MOVQ %d(DX), R10\nMOVQ %d(DX), R11", softRows, softKeys)
	f.p("MOVQ %d(DX), R12\nMOVQ %d(DX), R13\nMOVQ %d(DX), BX", softTop, softSum, softRescale)
	f.p("VBROADCASTSS %d(DX), Z%d", softScale, scale)
	for i, c := range poly {
		f.constant(isa512, c, coefficients+i)
	}
	f.bits(isa512, 0xff7fffff, lowest)
	f.p("MOVQ R11, CX\nANDQ $63, CX\nMOVQ CX, R15\nMOVQ $1, AX\nSHLQ CX, AX\nDECQ AX")
	for i := range 4 {
		f.p("KMOVW AX, K%d\nSHRQ $16, AX", 1+i)
	}
	f.p("SHRQ $6, R11") // complete iterations; R15 has the number of keys in the last one
	f.at("row")
	f.blockTop512(lowest, scale)
	f.p("VMOVSS (R12), X1\nVMAXSS X0, X1, X2\nVMOVSS X2, (R12)\nVSUBSS X2, X1, X0\nVBROADCASTSS X2, Z%d", top)
	f.exp2(poly, coefficients, 0, 4, 8) // factor for the sums so far
	f.p("VMOVSS X8, (BX)\nVMOVAPS Z8, Z30")
	f.zero(isa512, 16, 17, 18, 19)
	f.p("MOVQ SI, AX\nMOVQ DI, DX\nMOVQ R11, CX\nTESTQ CX, CX\nJZ lastweights")
	f.at("weights")
	f.weights512(poly, coefficients, top, scale, bf16, false)
	f.p("ADDQ $256, AX\nADDQ $%d, DX\nDECQ CX\nJNZ weights", map[bool]int{true: 128, false: 256}[bf16 && f.soft == 0])
	f.at("lastweights")
	f.p("TESTQ R15, R15\nJZ total")
	f.weights512(poly, coefficients, top, scale, bf16, true)
	f.at("total")
	f.p("VADDPS Z17, Z16, Z16\nVADDPS Z19, Z18, Z18\nVADDPS Z18, Z16, Z16")
	f.halves512("VADDPS", 16, 17)
	f.p("VMOVSS (R13), X0\nVFMADD213SS X16, X30, X0\nVMOVSS X0, (R13)")
	f.p("ADDQ $4, R12\nADDQ $4, R13\nADDQ $4, BX\nADDQ R8, SI\nADDQ R9, DI\nDECQ R10\nJNZ row")
	f.ret()
}

// blockTop512 computes the largest score of a row, scaled, in X0. The scale is positive.
func (f *file) blockTop512(lowest, scale int) {
	for i := range 4 {
		f.p("VMOVAPS Z%d, Z%d", lowest, i)
	}
	f.p("MOVQ SI, AX\nMOVQ R11, CX\nTESTQ CX, CX\nJZ lasttop")
	f.at("top")
	for i := range 4 {
		f.p("VMAXPS %d(AX), Z%d, Z%d", i*64, i, i)
	}
	f.p("ADDQ $256, AX\nDECQ CX\nJNZ top")
	f.at("lasttop")
	f.p("TESTQ R15, R15\nJZ topfound")
	for i := range 4 {
		f.p("VMAXPS %d(AX), Z%d, K%d, Z%d", i*64, i, 1+i, i)
	}
	f.at("topfound")
	f.p("VMAXPS Z0, Z1, Z0\nVMAXPS Z2, Z3, Z2\nVMAXPS Z0, Z2, Z0")
	f.halves512("VMAXPS", 0, 1)
	f.p("VMULSS X%d, X0, X0", scale)
}

// halves512 combines all lanes of register i by op into its lowest lane.
func (f *file) halves512(op string, i, t int) {
	f.p("VEXTRACTF64X4 $1, Z%d, Y%d\n%s Y%d, Y%d, Y%d", i, t, op, t, i, i)
	f.p("VEXTRACTF32X4 $1, Y%d, X%d\n%s X%d, X%d, X%d", i, t, op, t, i, i)
	f.p("VPERMILPS $0x4e, X%d, X%d\n%s X%d, X%d, X%d", i, t, op, t, i, i)
	f.p("VPERMILPS $0xb1, X%d, X%d\n%s X%d, X%d, X%d", i, t, op, t, i, i)
}

// exp2 computes 2^x of register x into p. VSCALEFPS multiplies by 2 to the power of floor(x).
func (f *file) exp2(poly []float64, coefficients, x, r, p int) {
	last := len(poly) - 1
	f.p("VREDUCEPS $1, Z%d, Z%d\nVMOVAPS Z%d, Z%d", x, r, coefficients+last, p)
	for k := last - 1; k >= 0; k-- {
		f.p("VFMADD213PS Z%d, Z%d, Z%d", coefficients+k, r, p)
	}
	f.p("VSCALEFPS Z%d, Z%d, Z%d", x, p, p)
}

// weights512 computes four vectors of weights at DX from scores at AX.
func (f *file) weights512(poly []float64, coefficients, top, scale int, bf16, masked bool) {
	last := len(poly) - 1
	for i := range 4 {
		if masked {
			f.p("VMOVUPS.Z %d(AX), K%d, Z%d", i*64, 1+i, i)
		} else {
			f.p("VMOVUPS %d(AX), Z%d", i*64, i)
		}
		f.p("VFMSUB213PS Z%d, Z%d, Z%d", top, scale, i)
	}
	for i := range 4 {
		f.p("VREDUCEPS $1, Z%d, Z%d\nVMOVAPS Z%d, Z%d", i, 4+i, coefficients+last, 8+i)
	}
	for k := last - 1; k >= 0; k-- {
		for i := range 4 {
			f.p("VFMADD213PS Z%d, Z%d, Z%d", coefficients+k, 4+i, 8+i)
		}
	}
	for i := range 4 {
		if masked {
			f.p("VSCALEFPS.Z Z%d, Z%d, K%d, Z%d", i, 8+i, 1+i, 8+i)
		} else {
			f.p("VSCALEFPS Z%d, Z%d, Z%d", i, 8+i, 8+i)
		}
		f.p("VADDPS Z%d, Z%d, Z%d", 8+i, 16+i, 16+i)
		switch {
		case bf16 && f.soft != 0: // as fp32
			f.stepBF16(8 + i)
			f.p("VMOVUPS Z%d, %d(DX)", 8+i, i*64)
		case bf16:
			f.toBF16(8+i, 8+i)
			f.p("VMOVUPS Y%d, %d(DX)", 8+i, i*32)
		default:
			f.p("VMOVUPS Z%d, %d(DX)", 8+i, i*64)
		}
	}
}

// softmaxes512 is the family of softmax routines for AVX-512.
func softmaxes512() *file {
	f := newFile("softmax_avx512")
	f.softmax512("softmax512F32", "turns scores into fp32 weights.", exp2Degree5, false)
	f.softmax512("softmax512BF16", "turns scores into weights rounded to bf16.", exp2Degree4, true)
	scaleRows(f, isa512, "scaleRows512F32", "multiplies rows by their factors.", false)
	scaleRows(f, isa512, "scaleRows512BF16", "multiplies rows by their factors and rounds them to bf16.", true)
	return f
}

// softmaxes256 is the family of softmax routines for AVX2. They process two vectors at a time and read the polynomial from memory.
func softmaxes256() *file {
	const lowest, top, scale, bound = 10, 11, 12, 13
	f := newFile("softmax_avx2")
	f.softmaxTables256()
	f.tables(isa256)
	scaleRows(f, isa256, "scaleRows256", "multiplies rows by their factors.", false)
	poly := func(k int) string { return fmt.Sprintf("exp2poly<>+%d(SB)", 32*k) }
	f.fn("softmax256", "s *softmax", 8, "turns scores into fp32 weights.")
	f.p("MOVQ s+0(FP), DX\nMOVQ %d(DX), SI\nMOVQ %d(DX), R8", softScores, softStride)
	f.p("MOVQ %d(DX), DI\nMOVQ %d(DX), R9", softWeights, softWeightStride)
	f.p("MOVQ %d(DX), R10\nMOVQ %d(DX), R11", softRows, softKeys)
	f.p("MOVQ %d(DX), R12\nMOVQ %d(DX), R13\nMOVQ %d(DX), BX", softTop, softSum, softRescale)
	f.p("VBROADCASTSS %d(DX), Y%d", softScale, scale)
	f.bits(isa256, 0xff7fffff, lowest)
	f.constant(isa256, -126, bound)
	f.p("LEAQ softmask<>+64(SB), AX\nMOVQ R11, CX\nANDQ $15, CX\nMOVQ CX, R15\nSHLQ $2, CX\nSUBQ CX, AX")
	f.p("VMOVUPS (AX), Y14\nVMOVUPS 32(AX), Y15\nSHRQ $4, R11")
	f.at("row")
	f.p("VMOVAPS Y%d, Y0\nVMOVAPS Y%d, Y1\nMOVQ SI, AX\nMOVQ R11, CX\nTESTQ CX, CX\nJZ lasttop", lowest, lowest)
	f.at("top")
	f.p("VMULPS (AX), Y%d, Y2\nVMULPS 32(AX), Y%d, Y3\nVMAXPS Y2, Y0, Y0\nVMAXPS Y3, Y1, Y1", scale, scale)
	f.p("ADDQ $64, AX\nDECQ CX\nJNZ top")
	f.at("lasttop")
	f.p("TESTQ R15, R15\nJZ topfound")
	for i := range 2 {
		f.p("VMASKMOVPS %d(AX), Y%d, Y%d\nVMULPS Y%d, Y%d, Y%d", i*32, 14+i, 2+i, 2+i, scale, 2+i)
		f.p("VBLENDVPS Y%d, Y%d, Y%d, Y%d\nVMAXPS Y%d, Y%d, Y%d", 14+i, 2+i, lowest, 2+i, 2+i, i, i)
	}
	f.at("topfound")
	f.p("VMAXPS Y0, Y1, Y0")
	f.halves256("VMAXPS", 0, 1)
	f.p("VMOVSS (R12), X1\nVMAXSS X0, X1, X2\nVMOVSS X2, (R12)\nVSUBSS X2, X1, X0\nVBROADCASTSS X2, Y%d", top)
	f.exp2of256(poly, bound, 0, 2, 4)
	f.p("VMOVSS X4, (BX)\nVMOVAPS Y4, Y8")
	f.zero(isa256, 6, 7)
	f.p("MOVQ SI, AX\nMOVQ DI, DX\nMOVQ R11, CX\nTESTQ CX, CX\nJZ lastweights")
	f.at("weights")
	f.weights256(poly, top, scale, bound, false)
	f.p("ADDQ $64, AX\nADDQ $64, DX\nDECQ CX\nJNZ weights")
	f.at("lastweights")
	f.p("TESTQ R15, R15\nJZ total")
	f.weights256(poly, top, scale, bound, true)
	f.at("total")
	f.p("VADDPS Y7, Y6, Y6")
	f.halves256("VADDPS", 6, 7)
	f.p("VMOVSS (R13), X0\nVFMADD213SS X6, X8, X0\nVMOVSS X0, (R13)")
	f.p("ADDQ $4, R12\nADDQ $4, R13\nADDQ $4, BX\nADDQ R8, SI\nADDQ R9, DI\nDECQ R10\nJNZ row")
	f.ret()
	return f
}

// softmaxTables256 writes the coefficients of the polynomial, each 8 times, and 16 lanes of ones followed by 16 of zeros.
func (f *file) softmaxTables256() {
	f.repeated("exp2poly<>", exp2Degree5)
	for i := range 32 {
		f.data("softmask<>", 4*i, uint32(int32(i-16)>>31))
	}
	f.global("softmask<>", 128)
}

func (f *file) halves256(op string, i, t int) {
	f.p("VEXTRACTF128 $1, Y%d, X%d\n%s X%d, X%d, X%d", i, t, op, t, i, i)
	f.p("VPERMILPS $0x4e, X%d, X%d\n%s X%d, X%d, X%d", i, t, op, t, i, i)
	f.p("VPERMILPS $0xb1, X%d, X%d\n%s X%d, X%d, X%d", i, t, op, t, i, i)
}

// exp2of256 computes 2^x of register x into p, but at least 2^-126. It overwrites x and n.
func (f *file) exp2of256(poly func(k int) string, bound, x, n, p int) {
	f.p("VMAXPS Y%d, Y%d, Y%d\nVROUNDPS $1, Y%d, Y%d\nVSUBPS Y%d, Y%d, Y%d", x, bound, x, x, n, n, x, x)
	last := len(exp2Degree5) - 1
	f.p("VMOVUPS %s, Y%d", poly(last), p)
	for k := last - 1; k >= 0; k-- {
		f.p("VFMADD213PS %s, Y%d, Y%d", poly(k), x, p)
	}
	f.p("VCVTPS2DQ Y%d, Y%d\nVPSLLD $23, Y%d, Y%d\nVPADDD Y%d, Y%d, Y%d", n, n, n, n, n, p, p)
}

// weights256 computes two vectors of weights at DX from scores at AX.
func (f *file) weights256(poly func(k int) string, top, scale, bound int, masked bool) {
	for i := range 2 {
		if masked {
			f.p("VMASKMOVPS %d(AX), Y%d, Y%d", i*32, 14+i, i)
		} else {
			f.p("VMOVUPS %d(AX), Y%d", i*32, i)
		}
		f.p("VFMSUB213PS Y%d, Y%d, Y%d", top, scale, i)
	}
	for i := range 2 {
		f.exp2of256(poly, bound, i, 2+i, 4+i)
		if masked {
			f.p("VANDPS Y%d, Y%d, Y%d", 14+i, 4+i, 4+i)
		}
		f.p("VADDPS Y%d, Y%d, Y%d\nVMOVUPS Y%d, %d(DX)", 4+i, 6+i, 6+i, 4+i, i*32)
	}
}
