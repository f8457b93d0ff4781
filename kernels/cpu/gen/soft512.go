package main

// soft512 is the family of routines that, with gemmPairs512, compute the class avx512bf16 without the instructions of AVX512_BF16:
// they round by integer arithmetic and keep terms as fp32.
func soft512() *file {
	f := newFile("soft_avx512")
	f.softTable()
	f.soft = 9
	f.allRowsBF16("Soft")
	f.rmsHeads("rmsHeads512BF16Soft", "normalises rows of bf16, rounding each step to bf16.", true, false)
	f.rmsHeads("rmsSilu512BF16Soft", "normalises rows of bf16 and applies SiLU, rounding each step to bf16.", true, true)
	f.rotateHeads("rotateHeads512BF16Soft", "rotates rows of bf16, rounding each step to bf16.", true)
	scaleRows(f, isa512, "scaleRows512BF16Soft", "multiplies rows by their factors and rounds them to bf16.", true)
	f.storeRows(false, true)
	f.storeRows(true, true)
	f.shortTable("shortPairsToF32", fma512, false)
	f.shortTable("shortPairsToBF16", fma512, true)
	f.soft = 12
	f.softmax512("softmax512Pairs", "turns scores into weights rounded to bf16, stored as fp32.", exp2Degree4, true)
	shortWeights512(f, "shortWeightsPairs512", "turns the scores of 16 queries into weights rounded to bf16, stored as fp32.", exp2Degree4, true)
	return f
}
