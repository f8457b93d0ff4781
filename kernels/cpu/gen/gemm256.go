package main

import "fmt"

// rows256 are the row counts of kernels for AVX2: 6 rows of 2 vectors fill the 16 registers.
var rows256 = map[int][]int{2: {1, 2, 4, 6}}

// gemm256 is the fp32 micro-kernel for AVX2 with FMA.
func gemm256() *file {
	f := newFile("gemm_avx2")
	for _, r := range rows256[2] {
		acc0 := 16 - 2*r
		t := tile{rows: r, vectors: 2, width: 32, reg: y, acc0: acc0, spread: 2, clear: "VXORPS", multiply: fma256}
		if r < 6 {
			f.gemm(fmt.Sprintf("gemm256r%dx2", r), t, 4)
			continue
		}
		f.gemm("gemm256r6x2", t, 8)
		t.ahead = true
		f.gemm("gemm256ahead", t, 8)
	}
	for _, r := range rows256[2] {
		t := tile{rows: r, vectors: 2, width: 32, reg: y, acc0: 16 - 2*r, spread: 2, clear: "VXORPS", multiply: fma256, pairs: true}
		if r < 6 {
			f.gemm(fmt.Sprintf("gemm256pairsr%dx2", r), t, 4)
			continue
		}
		f.gemm("gemm256pairsr6x2", t, 8)
		t.ahead = true
		f.gemm("gemm256pairsahead", t, 8)
	}
	f.table("kernels256Pairs", "holds the micro-kernels for widened pairs of bf16.", "gemm256pairsr", rows256, 2)
	f.table("kernels256", "holds the micro-kernels for AVX2 by vectors and rows.", "gemm256r", rows256, 2)
	return f
}

func fma256(b, a, acc int) string { return fmt.Sprintf("VFMADD231PS Y%d, Y%d, Y%d", b, a, acc) }
