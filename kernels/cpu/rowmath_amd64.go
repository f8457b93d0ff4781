package cpu

import "latentbeam/kernels"

// rows512 is the row arithmetic for AVX-512.
var rows512 = rowMath{
	add: addRow512, mul: mulRow512, silu: siluRow512, gelu: geluRow512, rotate: rotateRow512,
	sum: sumRow512, squares: squaresRow512, columnMoments: columnMoments512, center: centerRow512,
	rmsHeads:    [kernels.BF16 + 1]rmsFunc{kernels.F32: rmsHeads512F32},
	rmsSilu:     [kernels.BF16 + 1]rmsFunc{kernels.F32: rmsSilu512F32},
	rotateHeads: [kernels.BF16 + 1]rotateFunc{kernels.F32: rotateHeads512F32},
	standard:    standardRow512, weigh: weighRow512, affine: affineRow512, modulate: modulateRow512,
	widen: [...]func(dst []float32, src []uint16){
		kernels.BF16: widenBF16512, kernels.F16: widenF16512,
	},
	narrow: [...]func(dst []uint16, src []float32){
		kernels.BF16: narrowBF16512, kernels.F16: narrowF16512,
	},
}

// rows512BF16 is the row arithmetic for AVX-512 with BF16.
var rows512BF16 = func() rowMath {
	m := rows512
	m.round[kernels.BF16] = roundRowBF16
	m.rmsHeads[kernels.BF16], m.rotateHeads[kernels.BF16] = rmsHeads512BF16, rotateHeads512BF16
	m.rmsSilu[kernels.BF16] = rmsSilu512BF16
	m.standardBF16, m.weighBF16, m.modulateBF16 = standardRowBF16, weighRowBF16, modulateRowBF16
	m.rotateBF16 = rotateRowBF16
	m.binaryBF16[kernels.Add], m.binaryBF16[kernels.Mul] = addRowBF16, mulRowBF16
	return m
}()

// rows512Soft is rows512BF16 without AVX512_BF16.
var rows512Soft = func() rowMath {
	m := rows512BF16
	m.round[kernels.BF16] = roundRowBF16Soft
	m.rmsHeads[kernels.BF16], m.rotateHeads[kernels.BF16] = rmsHeads512BF16Soft, rotateHeads512BF16Soft
	m.rmsSilu[kernels.BF16] = rmsSilu512BF16Soft
	m.weighBF16, m.modulateBF16 = weighRowBF16Soft, modulateRowBF16Soft
	m.rotateBF16 = rotateRowBF16Soft
	return m
}()

// rows256 is the row arithmetic for AVX2 with FMA and F16C.
var rows256 = rowMath{
	add: addRow256, mul: mulRow256, silu: siluRow256, gelu: geluRow256, rotate: rotateRow256,
	sum: sumRow256, squares: squaresRow256, columnMoments: columnMoments256, center: centerRow256,
	standard: standardRow256, weigh: weighRow256, affine: affineRow256, modulate: modulateRow256,
	widen: [...]func(dst []float32, src []uint16){
		kernels.BF16: func(dst []float32, src []uint16) {
			widenBF16256(dst, src)
			n := len(dst) &^ 7
			rowsGo.widen[kernels.BF16](dst[n:], src[n:])
		},
		kernels.F16: func(dst []float32, src []uint16) {
			widenF16256(dst, src)
			n := len(dst) &^ 7
			rowsGo.widen[kernels.F16](dst[n:], src[n:])
		},
	},
	narrow: [...]func(dst []uint16, src []float32){
		kernels.BF16: func(dst []uint16, src []float32) {
			narrowBF16256(dst, src)
			n := len(dst) &^ 7
			rowsGo.narrow[kernels.BF16](dst[n:], src[n:])
		},
		kernels.F16: func(dst []uint16, src []float32) {
			narrowF16256(dst, src)
			n := len(dst) &^ 7
			rowsGo.narrow[kernels.F16](dst[n:], src[n:])
		},
	},
}

// rows256of512 is rows512 for AVX2: sums use the lanes of AVX-512. Elementwise operations have the same bits anyway.
var rows256of512 = func() rowMath {
	m := rows256
	m.sum, m.squares = sumRow256of512, squaresRow256of512
	return m
}()

// mulHalf256 multiplies a row by a row of bf16.
func mulHalf256(row []float32, half []uint16) {
	mulHalfRow256(row, half)
	n := len(row) &^ 7
	mulHalfGo(row[n:], half[n:])
}
