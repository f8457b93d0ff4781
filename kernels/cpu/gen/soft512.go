package main

// soft512 is the family with which AVX-512 computes the class of bf16 pairs without AVX512_BF16, in addition to gemmPairs512: it
// rounds by integer arithmetic and keeps terms as fp32.
func soft512() *file {
	f := newFile("soft_avx512")
	f.softTable()
	f.soft = 9
	f.allRowsBF16("Soft")
	f.rmsHeads("rmsHeads512BF16Soft", "normalises rows of bf16, each step rounded to it.", true, false)
	f.rmsHeads("rmsSilu512BF16Soft", "normalises rows of bf16 and takes SiLU of them, each step rounded to bf16.", true, true)
	f.rotateHeads("rotateHeads512BF16Soft", "turns rows of bf16, each step rounded to it.", true)
	scaleRows(f, isa512, "scaleRows512BF16Soft", "multiplies rows by their factors and rounds them to bf16.", true)
	f.storeRows(false, true)
	f.storeRows(true, true)
	f.shortTable("shortPairsToF32", fma512, false)
	f.shortTable("shortPairsToBF16", fma512, true)
	f.soft = 12
	f.softmax512("softmax512Pairs", "turns scores into weights rounded to bf16, as fp32.", exp2Degree4, true)
	shortWeights512(f, "shortWeightsPairs512", "makes weights of the scores of 16 queries, rounded to bf16, as fp32.", exp2Degree4, true)
	return f
}
