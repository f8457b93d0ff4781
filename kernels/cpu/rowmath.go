package cpu

import (
	"unsafe"

	"latentbeam/kernels"
)

// rowMath holds a tier's arithmetic on contiguous rows of fp32. All slices of a call are as long as dst (cos and sin half as
// long); dst may be src. Sums are computed in float64, in an order that depends on the length alone.
type rowMath struct {
	add, mul   func(dst, a, b []float32)
	silu, gelu func(dst, src []float32)
	rotate     func(dst, src, cos, sin []float32) // see Backend.Rope

	sum     func(src []float32) float64
	squares func(src []float32, mean float64) float64 // of the differences from mean
	// columnMoments adds the elements of each column, and their squares, over rows that start stride elements apart.
	columnMoments func(sums, squares []float64, src []float32, rows, stride int)

	center   func(dst, src, mean, a, b []float32)                 // (src - mean) a + b
	standard func(dst, src []float32, mean, factor float32)       // s = (src - mean) factor
	weigh    func(dst, src, a []float32, mean, factor float32)    // s a
	affine   func(dst, src, a, b []float32, mean, factor float32) // s a + b
	modulate func(dst, src, a, b []float32, mean, factor float32) // s (1 + a) + b
	// rmsHeads and rotateHeads compute RMSNorm with a weight and Rope for many short rows of one type, F32 or BF16. Distances
	// of rows are in bytes, the bits equal those of single rows; nil if the tier has no routine.
	rmsHeads    [kernels.BF16 + 1]rmsFunc
	rmsSilu     [kernels.BF16 + 1]rmsFunc // followed by SiLU
	rotateHeads [kernels.BF16 + 1]rotateFunc

	// round rounds to BF16 or F16 in place. The other fields round each step to bf16 (r): s, r(s) a, r(r(s) a) + b, rotate with
	// rounded products, and operations on bf16; nil if the tier has no routine.
	round        [kernels.F16 + 1]func(row []float32)
	standardBF16 func(dst []uint16, src []float32, mean, factor float32)
	weighBF16    func(dst []uint16, src, a []float32, mean, factor float32)
	modulateBF16 func(dst []uint16, src, a, b []float32, mean, factor float32)
	rotateBF16   func(dst []uint16, src, cos, sin []float32)
	binaryBF16   [kernels.Mul + 1]func(dst, a, b []uint16)

	widen  [kernels.F16 + 1]func(dst []float32, src []uint16) // BF16 and F16, exact
	narrow [kernels.F16 + 1]func(dst []uint16, src []float32) // rounded to nearest, ties to even
}

type (
	rmsFunc    func(dst, src unsafe.Pointer, dstStride, srcStride, rows int, weight []float32, eps float64)
	rotateFunc func(dst, src unsafe.Pointer, dstStride, srcStride, rows int, cos, sin []float32)
)

// apply computes dst = op(src), op not Identity.
func (m *rowMath) apply(dst, src []float32, op kernels.UnaryOp) {
	switch op {
	case kernels.SiLU:
		m.silu(dst, src)
	case kernels.Sigmoid: // rare enough for plain Go in every tier
		sigmoidGo(dst, src)
	case kernels.ReLU:
		reluGo(dst, src)
	case kernels.Tanh:
		tanhGo(dst, src)
	default:
		m.gelu(dst, src)
	}
}

// activate applies op to row in place.
func (m *rowMath) activate(row []float32, op kernels.UnaryOp) {
	if op != kernels.Identity {
		m.apply(row, row, op)
	}
}

// conversions belongs to the tier that the process starts with. Every tier gives the same bits, so views need not know the tier
// of their backend.
var conversions = func() *rowMath {
	t, _ := chooseTier("")
	return &t.row
}()

// rowsGo uses plain Go. Products are rounded by an explicit conversion, so that a compiler that may fuse multiply and add gives
// the same bits.
var rowsGo = rowMath{
	add: func(dst, a, b []float32) {
		for i, x := range a {
			dst[i] = x + b[i]
		}
	},
	mul: func(dst, a, b []float32) {
		for i, x := range a {
			dst[i] = float32(x * b[i])
		}
	},
	silu: siluGo, gelu: geluGo, rotate: rotateGo,
	sum: sumGo, squares: squaresGo, columnMoments: columnMomentsGo,
	center: func(dst, src, mean, a, b []float32) {
		for i, x := range src {
			dst[i] = float32((x-mean[i])*a[i]) + b[i]
		}
	},
	standard: func(dst, src []float32, mean, factor float32) {
		for i, x := range src {
			dst[i] = float32((x - mean) * factor)
		}
	},
	weigh: func(dst, src, a []float32, mean, factor float32) {
		for i, x := range src {
			dst[i] = float32(float32((x-mean)*factor) * a[i])
		}
	},
	affine: func(dst, src, a, b []float32, mean, factor float32) {
		for i, x := range src {
			dst[i] = float32(float32((x-mean)*factor)*a[i]) + b[i]
		}
	},
	modulate: func(dst, src, a, b []float32, mean, factor float32) {
		for i, x := range src {
			dst[i] = float32(float32((x-mean)*factor)*(1+a[i])) + b[i]
		}
	},
	widen: [...]func(dst []float32, src []uint16){
		kernels.BF16: func(dst []float32, src []uint16) {
			for i := range dst {
				dst[i] = kernels.FromBF16(src[i])
			}
		},
		kernels.F16: func(dst []float32, src []uint16) {
			for i := range dst {
				dst[i] = kernels.FromF16(src[i])
			}
		},
	},
	narrow: [...]func(dst []uint16, src []float32){
		kernels.BF16: func(dst []uint16, src []float32) {
			for i := range dst {
				dst[i] = kernels.ToBF16(src[i])
			}
		},
		kernels.F16: func(dst []uint16, src []float32) {
			for i := range dst {
				dst[i] = kernels.ToF16(src[i])
			}
		},
	},
}

// rotateGo rotates the pairs (src[2j], src[2j+1]).
func rotateGo(dst, src, cos, sin []float32) {
	for j, c := range cos {
		x, y, s := src[2*j], src[2*j+1], sin[j]
		dst[2*j] = float32(x*c) - float32(y*s)
		dst[2*j+1] = float32(y*c) + float32(x*s)
	}
}

// sumGo adds in four lanes, so that an addition does not wait for the previous one.
func sumGo(src []float32) float64 {
	var s0, s1, s2, s3 float64
	for len(src) >= 4 {
		s0 += float64(src[0])
		s1 += float64(src[1])
		s2 += float64(src[2])
		s3 += float64(src[3])
		src = src[4:]
	}
	for _, x := range src {
		s0 += float64(x)
	}
	return (s0 + s1) + (s2 + s3)
}

// squaresGo adds (x - mean)^2 in four lanes.
func squaresGo(src []float32, mean float64) float64 {
	var s0, s1, s2, s3 float64
	for len(src) >= 4 {
		d0, d1 := float64(src[0])-mean, float64(src[1])-mean
		d2, d3 := float64(src[2])-mean, float64(src[3])-mean
		s0 += float64(d0 * d0)
		s1 += float64(d1 * d1)
		s2 += float64(d2 * d2)
		s3 += float64(d3 * d3)
		src = src[4:]
	}
	for _, x := range src {
		d := float64(x) - mean
		s0 += float64(d * d)
	}
	return (s0 + s1) + (s2 + s3)
}

func columnMomentsGo(sums, squares []float64, src []float32, rows, stride int) {
	clear(sums)
	clear(squares)
	for i := range rows {
		for j, x := range src[i*stride:][:len(sums)] {
			sums[j] += float64(x)
			squares[j] += float64(float64(x) * float64(x))
		}
	}
}
