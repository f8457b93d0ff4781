package main

import "fmt"

// rows512 holds the row counts of the kernels for each number of vectors. The largest fills the 32 registers; the others compute the
// remaining rows. 5 vectors are for heads of 72 elements, for which two panels of 4 vectors would waste almost half.
var rows512 = map[int][]int{
	1: {1, 2, 4, 8, 12},
	2: {1, 2, 4, 8, 12},
	3: {1, 2, 4, 8},
	4: {1, 2, 4, 6},
	5: {1, 2, 4, 5},
}

// gemm512 is the micro-kernel for AVX-512: fp32, and bf16 pairs added by VDPBF16PS.
func gemm512() *file {
	f := newFile("gemm_avx512")
	for v := 1; v <= 5; v++ {
		for _, r := range rows512[v] {
			f.gemm(fmt.Sprintf("gemm512f32r%dx%d", r, v), tile512(r, v, fma512), unroll512(r))
			f.gemm(fmt.Sprintf("gemm512bf16r%dx%d", r, v), tile512(r, v, vdpbf16ps), unroll512(r))
		}
	}
	for _, r := range rows512[5] { // heads of 72 have four and a half vectors
		f32, bf16 := tile512(r, 5, fma512), tile512(r, 5, vdpbf16ps)
		f32.half, f32.multiplyHalf, bf16.half, bf16.multiplyHalf = true, fmaHalf, true, vdpbf16psHalf
		f.gemm(fmt.Sprintf("gemm512f32half%dx5", r), f32, unroll512(r))
		f.gemm(fmt.Sprintf("gemm512bf16half%dx5", r), bf16, unroll512(r))
	}
	half := map[int][]int{5: rows512[5]}
	f.table("halves512F32", "holds the fp32 micro-kernels whose last vector is half as wide.", "gemm512f32half", half, 5)
	f.table("halves512BF16", "holds the same kernels for pairs of bf16.", "gemm512bf16half", half, 5)
	f32, bf16 := tile512(6, 4, fma512), tile512(6, 4, vdpbf16ps)
	f32.ahead, bf16.ahead = true, true
	f.gemm("gemm512f32ahead", f32, 8)
	f.gemm("gemm512bf16ahead", bf16, 8)
	f.table("kernels512F32", "holds the fp32 micro-kernels for AVX-512 by vectors and rows.",
		"gemm512f32r", rows512, 5)
	f.table("kernels512BF16", "holds the micro-kernels for pairs of bf16 (AVX512_BF16).",
		"gemm512bf16r", rows512, 5)
	return f
}

// gemmPairs512 is the micro-kernel for pairs of bf16 on processors without AVX512_BF16, or where it is slow: two
// multiply-adds of widened terms.
func gemmPairs512() *file {
	f := newFile("gemm_pairs512")
	pairs := func(rows, vectors int) tile {
		t := tile512(rows, vectors, fma512)
		t.pairs = true
		return t
	}
	for v := 1; v <= 5; v++ {
		for _, r := range rows512[v] {
			f.gemm(fmt.Sprintf("gemm512pairsr%dx%d", r, v), pairs(r, v), unroll512(r))
		}
	}
	for _, r := range rows512[5] {
		t := pairs(r, 5)
		t.half, t.multiplyHalf = true, fmaHalf
		f.gemm(fmt.Sprintf("gemm512pairshalf%dx5", r), t, unroll512(r))
	}
	f.table("halves512Pairs", "holds the micro-kernels whose last vector is half as wide.", "gemm512pairshalf", map[int][]int{5: rows512[5]}, 5)
	t := pairs(6, 4)
	t.ahead = true
	f.gemm("gemm512pairsahead", t, 8)
	f.table("kernels512Pairs", "holds the micro-kernels for widened pairs of bf16.", "gemm512pairsr", rows512, 5)
	return f
}

func unroll512(rows int) int {
	if rows > 6 {
		return 2
	}
	return 4
}

func tile512(rows, vectors int, multiply func(b, a, acc int) string) tile {
	acc0 := 32 - rows*vectors
	return tile{rows: rows, vectors: vectors, width: 64, reg: z, acc0: acc0,
		spread: min(4, acc0-vectors), clear: "VPXORD", multiply: multiply}
}

// fmaHalf is a multiply-add on the lower halves of AVX-512 registers. With AVX512VL there are 32 of them.
func fmaHalf(b, a, acc int) string { return fmt.Sprintf("VFMADD231PS Y%d, Y%d, Y%d", b, a, acc) }

func fma512(b, a, acc int) string { return fmt.Sprintf("VFMADD231PS Z%d, Z%d, Z%d", b, a, acc) }
