package main

import "fmt"

// soft256 is the family of routines with which AVX2 computes the bits of the AVX-512 classes: two registers hold the lanes of one
// AVX-512 register, 2^x is computed as VREDUCEPS and VSCALEFPS do, and rounding uses integer arithmetic.
func soft256() *file {
	f := newFile("soft_avx2")
	f.tables(isa256)
	f.softmaxTables256()
	f.repeated("exp2poly4<>", exp2Degree4)
	f.repeated("exp2bounds<>", exp2Bounds)
	f.repeatedBits("softbf16<>", softConstants)
	f.roundRow256()
	f.conversionParams("mulHalfRow256", "multiplies dst by src, bf16. The length is rounded down to a multiple of 8.", 2, 4)
	f.p("SHRQ $3, CX\nJZ done")
	f.at("loop")
	f.p("VPMOVZXWD (SI), Y0\nVPSLLD $16, Y0, Y0\nVMULPS (DI), Y0, Y0\nVMOVUPS Y0, (DI)\nADDQ $16, SI\nADDQ $32, DI\nDECQ CX\nJNZ loop")
	f.at("done")
	f.ret()
	f.sums256("sumRow256of512", "adds the elements of src.", false)
	f.sums256("squaresRow256of512", "adds the squares of the differences from mean.", true)
	f.top256()
	f.exp2Row256("exp2Row256", "computes 2^(src scale - top).", "exp2poly<>", len(exp2Degree5))
	f.exp2Row256("exp2Row256Pairs", "computes 2^(src scale - top) as precisely as bf16 weights need.", "exp2poly4<>", len(exp2Degree4))
	f.sum64()
	f.shortWeights256of512("shortWeights256of512", "turns the scores of 16 queries into fp32 weights. It overwrites the scores.",
		"exp2poly<>", len(exp2Degree5), false)
	f.shortWeights256of512("shortWeights256Pairs", "turns the scores of 16 queries into weights rounded to bf16, stored as fp32.",
		"exp2poly4<>", len(exp2Degree4), true)
	shortValues256(f, "shortPairs256x2", true)
	f.goCode("\n// shortPairs256 holds the routines by the number of vectors of columns.")
	f.goCode("var shortPairs256 = [...]func(*shortValues){2: shortPairs256x2}")
	return f
}

// exp2Bounds limit x of 2^x, and the exponents of the two powers of two by which the polynomial is multiplied: so the first product
// is exact, and the second factor is in the range of fp32. For x below -226 the result is 0, above 300 infinity.
var exp2Bounds = []float64{boundLow: -226, boundHigh: 300, boundFirstLow: -100, boundFirstHigh: 100, boundLastLow: -126, boundLastHigh: 127, boundOne: 1}

const (
	boundLow = iota
	boundHigh
	boundFirstLow
	boundFirstHigh
	boundLastLow
	boundLastHigh
	boundOne
)

func boundAt(i int) string { return fmt.Sprintf("exp2bounds<>+%d(SB)", 32*i) }

// repeatedBits writes a table of dwords, 8 times each.
func (f *file) repeatedBits(table string, constants []uint32) {
	for i, c := range constants {
		for lane := range 8 {
			f.data(table, 32*i+4*lane, c)
		}
	}
	f.global(table, 32*len(constants))
}

// softBF16of256 rounds register x as softBF16 does. The result is fp32. It overwrites m, z, t and s.
func (f *file) softBF16of256(x, m, z, t, s int) {
	soft := func(i int) string { return fmt.Sprintf("softbf16<>+%d(SB)", 32*i) }
	f.p("VPXOR Y%d, Y%d, Y%d\nVPAND %s, Y%d, Y%d\nVPCMPEQD Y%d, Y%d, Y%d", s, s, s, soft(softExponent), x, m, s, m, m)
	f.p("VPAND %s, Y%d, Y%d", soft(softSign), x, z)
	f.p("VPSRLD $16, Y%d, Y%d\nVPAND %s, Y%d, Y%d", x, t, soft(softOne), t, t)
	f.p("VPADDD %s, Y%d, Y%d\nVPADDD Y%d, Y%d, Y%d", soft(softTie), t, t, x, t, t)
	f.p("VCMPPS $3, Y%d, Y%d, Y%d\nVPOR %s, Y%d, Y%d\nVBLENDVPS Y%d, Y%d, Y%d, Y%d", x, x, s, soft(softQuiet), x, x, s, x, t, t)
	f.p("VPAND %s, Y%d, Y%d\nVBLENDVPS Y%d, Y%d, Y%d, Y%d", soft(softUpper), t, t, m, z, t, x)
}

func (f *file) roundRow256() {
	f.fn("roundRow256Soft", "row []float32", 24, "rounds row to bf16; subnormal numbers become zero.")
	f.p("MOVQ row_base+0(FP), DI\nMOVQ row_len+8(FP), CX")
	f.overRow(isa256, 1, []stream{{"DI", 4}}, func(_ int, masked bool) {
		f.load(isa256, 0, "DI", 0, masked)
		f.softBF16of256(0, 1, 2, 3, 4)
		f.save(isa256, 0, 0, "DI", masked)
	})
	f.ret()
}

// sums256 is sum or squares with the lanes of AVX-512: registers 2i and 2i+1 together are register i of AVX-512.
func (f *file) sums256(name, doc string, squares bool) {
	v, ret := isa256, 24
	if squares {
		ret = 32
		f.fnResult(name, "src []float32, mean float64", "float64", 40, doc)
		f.p("VBROADCASTSD mean+24(FP), Y10")
	} else {
		f.fnResult(name, "src []float32", "float64", 32, doc)
	}
	f.p("MOVQ src_base+0(FP), SI\nMOVQ src_len+8(FP), CX")
	f.zero(v, 0, 1, 2, 3, 4, 5, 6, 7)
	f.overLanes(v, 8, 4, []stream{{"SI", 4}}, func(n int, masked bool) {
		if masked {
			f.p("VEXTRACTF128 $1, Y15, X14")
		}
		for i := range 2 * n {
			if masked {
				f.p("VMASKMOVPS %d(SI), X%d, X8\nVCVTPS2PD X8, Y8", 16*i, 15-i)
			} else {
				f.p("VCVTPS2PD %d(SI), Y8", 16*i)
			}
			if !squares {
				f.p("VADDPD Y8, Y%d, Y%d", i, i)
				continue
			}
			f.p("VSUBPD Y10, Y8, Y8")
			if masked {
				f.p("VPMOVSXDQ X%d, Y9\nVANDPD Y9, Y8, Y8", 15-i)
			}
			f.p("VFMADD231PD Y8, Y8, Y%d", i)
		}
	})
	for _, pair := range [][2]int{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {0, 1}} {
		f.p("VADDPD Y%d, Y%d, Y%d", pair[1], pair[0], pair[0])
	}
	f.p("VEXTRACTF128 $1, Y0, X1\nVADDPD X1, X0, X0\nVUNPCKHPD X0, X0, X1\nVADDSD X1, X0, X0")
	f.p("VMOVSD X0, ret+%d(FP)", ret)
	f.ret()
}

// top256 finds the largest score.
func (f *file) top256() {
	f.fnResult("topRow256", "src []float32", "float32", 28, "returns the largest element.")
	f.p("MOVQ src_base+0(FP), SI\nMOVQ src_len+8(FP), CX")
	f.bits(isa256, 0xff7fffff, 10)
	f.p("VMOVAPS Y10, Y0\nVMOVAPS Y10, Y1")
	f.overRow(isa256, 2, []stream{{"SI", 4}}, func(n int, masked bool) {
		for i := range n {
			f.load(isa256, 32*i, "SI", 2+i, masked)
			if masked {
				f.p("VBLENDVPS Y15, Y%d, Y10, Y%d", 2+i, 2+i)
			}
			f.p("VMAXPS Y%d, Y%d, Y%d", 2+i, i, i)
		}
	})
	f.p("VMAXPS Y0, Y1, Y0")
	f.halves256("VMAXPS", 0, 1)
	f.p("VMOVSS X0, ret+24(FP)")
	f.ret()
}

// exp2of512 computes 2^x of register x into p with the bits of VREDUCEPS, the polynomial and VSCALEFPS. It overwrites x, n and t.
// VREDUCEPS rounds x - floor(x) down.
func (f *file) exp2of512(table string, coefficients, x, n, p, t int) {
	f.p("VMOVUPS %s, Y%d\nVMAXPS Y%d, Y%d, Y%d", boundAt(boundLow), t, x, t, x)
	f.p("VMOVUPS %s, Y%d\nVMINPS Y%d, Y%d, Y%d", boundAt(boundHigh), t, x, t, x)
	f.p("VROUNDPS $1, Y%d, Y%d\nVSUBPS Y%d, Y%d, Y%d", x, n, n, x, t)
	f.p("VADDPS Y%d, Y%d, Y%d\nVCMPPS $30, Y%d, Y%d, Y%d\nVPADDD Y%d, Y%d, Y%d", n, t, p, x, p, p, p, t, t)
	at := func(k int) string { return fmt.Sprintf("%s+%d(SB)", table, 32*k) }
	f.p("VMOVUPS %s, Y%d", at(coefficients-1), p)
	for k := coefficients - 2; k >= 0; k-- {
		f.p("VFMADD213PS %s, Y%d, Y%d", at(k), t, p)
	}
	f.p("VMAXPS %s, Y%d, Y%d\nVMINPS %s, Y%d, Y%d", boundAt(boundFirstLow), n, x, boundAt(boundFirstHigh), x, x)
	f.p("VSUBPS Y%d, Y%d, Y%d\nVMAXPS %s, Y%d, Y%d\nVMINPS %s, Y%d, Y%d", x, n, n, boundAt(boundLastLow), n, n, boundAt(boundLastHigh), n, n)
	for _, power := range []int{x, n} {
		f.p("VCVTPS2DQ Y%d, Y%d\nVPSLLD $23, Y%d, Y%d\nVPADDD %s, Y%d, Y%d", power, power, power, power, boundAt(boundOne), power, power)
		f.p("VMULPS Y%d, Y%d, Y%d", power, p, p)
	}
}

func (f *file) exp2Row256(name, doc, table string, coefficients int) {
	f.fn(name, "dst, src []float32, top, scale float32", 56, doc)
	f.p("MOVQ dst_base+0(FP), DI\nMOVQ dst_len+8(FP), CX\nMOVQ src_base+24(FP), SI")
	f.p("VBROADCASTSS top+48(FP), Y8\nVBROADCASTSS scale+52(FP), Y9")
	f.overRow(isa256, 2, []stream{{"DI", 4}, {"SI", 4}}, func(n int, masked bool) {
		for i := range n {
			f.load(isa256, 32*i, "SI", 4*i, masked)
			f.p("VFMSUB213PS Y8, Y9, Y%d", 4*i)
		}
		for i := range n {
			f.exp2of512(table, coefficients, 4*i, 4*i+1, 4*i+2, 4*i+3)
			f.save(isa256, 4*i+2, 32*i, "DI", masked)
		}
	})
	f.ret()
}

// sum64 adds in the order of the AVX-512 softmax: in four registers of 16 lanes.
func (f *file) sum64() {
	f.fnResult("sum64Row256", "src []float32", "float32", 28, "adds whole turns of 64 elements.")
	f.p("MOVQ src_base+0(FP), SI\nMOVQ src_len+8(FP), CX")
	f.zero(isa256, 0, 1, 2, 3, 4, 5, 6, 7)
	f.p("SHRQ $6, CX\nJZ total")
	f.at("turn")
	for i := range 8 {
		f.p("VADDPS %d(SI), Y%d, Y%d", 32*i, i, i)
	}
	f.p("ADDQ $256, SI\nDECQ CX\nJNZ turn")
	f.at("total")
	for _, pair := range [][2]int{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {0, 1}} {
		f.p("VADDPS Y%d, Y%d, Y%d", pair[1], pair[0], pair[0])
	}
	f.halves256("VADDPS", 0, 1)
	f.p("VMOVSS X0, ret+24(FP)")
	f.ret()
}

// shortWeights256of512 gives the bits of shortWeights512, for 8 queries and then 8 more.
func (f *file) shortWeights256of512(name, doc, table string, coefficients int, round bool) {
	const top, scale = 8, 9
	f.fn(name, "weights, scores unsafe.Pointer, keys int, scale float32", 28, doc)
	f.p("MOVQ weights+0(FP), DI\nMOVQ scores+8(FP), SI\nMOVQ keys+16(FP), CX\nVBROADCASTSS scale+24(FP), Y%d", scale)
	f.bits(isa256, 0xff7fffff, top)
	f.p("MOVQ CX, AX\nSHLQ $6, AX\nADDQ SI, AX")
	f.at("fill")
	f.p("TESTQ $3, CX\nJZ filled\nVMOVUPS Y%d, (AX)\nVMOVUPS Y%d, 32(AX)\nADDQ $64, AX\nINCQ CX\nJMP fill", top, top)
	f.at("filled")
	f.p("SHRQ $2, CX\nMOVQ CX, R10\nMOVQ $2, R11")
	f.at("half")
	f.bits(isa256, 0xff7fffff, 0)
	f.p("MOVQ SI, AX\nMOVQ R10, CX")
	f.at("max")
	for i := range 4 {
		f.p("VMAXPS %d(AX), Y0, Y0", i*64)
	}
	f.p("ADDQ $256, AX\nDECQ CX\nJNZ max\nVMULPS Y0, Y%d, Y%d", scale, top)
	f.zero(isa256, 4, 5, 6, 7)
	f.p("MOVQ SI, AX\nMOVQ R10, CX")
	f.at("weigh")
	for i := range 4 {
		f.p("VMOVUPS %d(AX), Y0\nVFMSUB213PS Y%d, Y%d, Y0", i*64, top, scale)
		f.exp2of512(table, coefficients, 0, 1, 2, 3)
		f.p("VADDPS Y2, Y%d, Y%d\nVMOVUPS Y2, %d(AX)", 4+i, 4+i, i*64)
	}
	f.p("ADDQ $256, AX\nDECQ CX\nJNZ weigh")
	f.p("VADDPS Y5, Y4, Y4\nVADDPS Y7, Y6, Y6\nVADDPS Y6, Y4, Y4\nVMOVUPS %s, Y0\nVDIVPS Y4, Y0, Y10", boundAt(boundOne))
	f.p("MOVQ SI, AX\nMOVQ DI, BX\nMOVQ R10, CX")
	f.at("normalize")
	for i := range 4 {
		f.p("VMULPS %d(AX), Y10, Y0", i*64)
		if round {
			f.softBF16of256(0, 1, 2, 3, 4)
		}
		f.p("VMOVUPS Y0, %d(BX)", i*64)
	}
	f.p("ADDQ $256, AX\nADDQ $256, BX\nDECQ CX\nJNZ normalize")
	f.p("ADDQ $32, SI\nADDQ $32, DI\nDECQ R11\nJNZ half")
	f.ret()
}
