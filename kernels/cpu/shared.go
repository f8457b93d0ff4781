package cpu

import (
	"math"
	"unsafe"

	"latentbeam/kernels"
)

// The classes avx512 and avx512bf16 define orders of sums, not instructions: any processor can compute the bits of AVX-512.
// This file has the parts that tiers without AVX-512 share and, below, their definitions in Go.

// softmaxRoutines holds the operations of a softmax of the shared classes.
type softmaxRoutines struct {
	top   func(src []float32) float32
	exp2  [dots]func(dst, src []float32, top, scale float32) // 2^(src scale - top), by the polynomial of the kind
	sum   func(src []float32) float32                        // in whole turns of 64 lanes
	round func(row []float32)                                // to bf16, stored as fp32; subnormal numbers become zero
}

// softmax computes the same as softmax512F32, or with dotPairs as softmax512Pairs.
func (m *softmaxRoutines) softmax(s *softmax, d dot) {
	for i := range s.rows {
		row := unsafe.Slice((*float32)(unsafe.Add(s.scores, i*s.stride)), s.keys)
		out := unsafe.Slice((*float32)(unsafe.Add(s.weights, i*s.weightStride)), (s.keys+keyTurn-1)/keyTurn*keyTurn)
		top, sum := (*float32)(unsafe.Add(s.top, i*4)), (*float32)(unsafe.Add(s.sum, i*4))
		rescale := unsafe.Slice((*float32)(unsafe.Add(s.rescale, i*4)), 1)
		before := *top
		*top = max(before, float32(m.top(row)*s.scale))
		rescale[0] = before - *top
		m.exp2[d](rescale, rescale, 0, 1)
		m.exp2[d](out[:s.keys], row, *top, s.scale)
		clear(out[s.keys:])
		*sum = fma32(rescale[0], *sum, m.sum(out))
		if d == dotPairs {
			m.round(out)
		}
	}
}

// storeSoft returns routines that finish sums in bf16. Like the routines of AVX512_BF16 they treat subnormal numbers as zero.
// mul multiplies a row by a row of bf16. The sums are overwritten.
func storeSoft(m *rowMath, mul func(row []float32, half []uint16)) (s storeRoutines) {
	row := func(p unsafe.Pointer, i, stride, columns int) []float32 {
		return unsafe.Slice((*float32)(unsafe.Add(p, i*stride)), columns)
	}
	store := func(dst, src, bias unsafe.Pointer, dstStride, srcStride, rows, columns int) {
		for i := range rows {
			r := row(src, i, srcStride, columns)
			if bias != nil {
				m.add(r, r, row(bias, 0, 0, columns))
			}
			m.round[kernels.BF16](r)
			m.narrow[kernels.BF16](unsafe.Slice((*uint16)(unsafe.Add(dst, i*dstStride)), columns), r)
		}
	}
	s.plain[kernels.BF16] = func(dst, src, _ unsafe.Pointer, dstStride, srcStride, rows, columns int) {
		store(dst, src, nil, dstStride, srcStride, rows, columns)
	}
	s.biased[kernels.BF16] = store
	s.biasRound = func(sums, other unsafe.Pointer, stride, otherStride, rows, columns int) {
		for i := range rows {
			r := row(sums, i, stride, columns)
			m.add(r, r, row(other, i, otherStride, columns))
			m.round[kernels.BF16](r)
		}
	}
	s.mulRound = func(sums, other unsafe.Pointer, stride, otherStride, rows, columns int) {
		for i := range rows {
			r := row(sums, i, stride, columns)
			mul(r, unsafe.Slice((*uint16)(unsafe.Add(other, i*otherStride)), columns))
			m.round[kernels.BF16](r)
		}
	}
	return s
}

// scaleRowsSoft is scaleRows with bf16 results. The sums are overwritten.
func scaleRowsSoft(m *rowMath, scale scaleFunc) scaleFunc {
	return func(dst, src unsafe.Pointer, dstStride, srcStride int, factors unsafe.Pointer, rows, columns int) {
		scale(src, src, srcStride, srcStride, factors, rows, columns)
		for i := range rows {
			r := unsafe.Slice((*float32)(unsafe.Add(src, i*srcStride)), columns)
			m.round[kernels.BF16](r)
			m.narrow[kernels.BF16](unsafe.Slice((*uint16)(unsafe.Add(dst, i*dstStride)), columns), r)
		}
	}
}

// sharedGo returns the tiers of the shared classes in plain Go.
func sharedGo() []*tier {
	f32 := &tier{name: "avx512", instructions: "go", lanes: 2, align: 2, usualWidth: 2, maxWidth: 2, pack: packersGo, int8: int8Go,
		row: rowsGo512, attend: attentionGo512,
		kernels: [dots]*kernelSet{newKernelSet([]microKernels{1: {1: reduceFused1}})}}
	pairs := *f32
	pairs.name, pairs.kernels[dotPairs] = "avx512bf16", newKernelSet([]microKernels{1: {1: reducePairs1}})
	pairs.row.round[kernels.BF16] = roundSoftGo
	pairs.store = storeSoft(&pairs.row, mulHalfGo)
	pairs.attend.scaleRows[dotBF16] = scaleRowsSoft(&pairs.row, scaleRowsGo)
	return []*tier{&pairs, f32}
}

// fma32 computes a b + c, rounded once, on any platform. The product is exact in float64, and the sum is rounded to odd there,
// so rounding it to fp32 is correct (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
func fma32(a, b, c float32) float32 {
	p := float64(float64(a) * float64(b))
	s := float64(p + float64(c))
	back := float64(s - p)
	low := float64(float64(p-float64(s-back)) + float64(float64(c)-back))
	if bits := math.Float64bits(s); (low > 0 || low < 0) && bits&1 == 0 {
		if (low > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
		s = math.Float64frombits(bits)
	}
	return float32(s)
}

// smallestNormal is the least fp32 that is not subnormal. Values from leastNormal on round to it and count as normal.
const smallestNormal, leastNormal = 0x1p-126, 0x1p-126 * (1 - 0x1p-25)

// flush replaces a subnormal number by zero.
func flush(x float32) float32 {
	if x < smallestNormal && x > -smallestNormal {
		return math.Float32frombits(math.Float32bits(x) & (1 << 31))
	}
	return x
}

// fmaPair computes a b + c as VDPBF16PS does for each half: a and b are bf16, and subnormal numbers are replaced by zero before
// and after. The float64 sum is halfway between two fp32 only if the exact sum is, because a product has 16 bits.
func fmaPair(a, b, c float32) float32 {
	s := float64(float64(flush(a))*float64(flush(b))) + float64(flush(c))
	if s < leastNormal && s > -leastNormal {
		return float32(math.Copysign(0, s))
	}
	return float32(s)
}

// reduceFused1 is reduceGo1 with fused multiply-add.
func reduceFused1(r *reduce) {
	var c0, c1 float32
	for i := range r.blocks {
		a := unsafe.Slice((*float32)(r.row(i, 0)), r.k)
		b := unsafe.Slice((*[2]float32)(unsafe.Add(r.b, i*r.k*8)), r.k)
		for k, x := range a {
			c0, c1 = fma32(x, b[k][0], c0), fma32(x, b[k][1], c1)
		}
	}
	r.store(0, c0, c1)
}

// reducePairs1 computes VDPBF16PS for widened pairs: the second element of a pair is added first.
func reducePairs1(r *reduce) {
	var c0, c1 float32
	for i := range r.blocks {
		a := unsafe.Slice((*[2]float32)(r.row(i, 0)), r.k/2)
		b := unsafe.Slice((*[4]float32)(unsafe.Add(r.b, i*r.k*8)), r.k/2)
		for k, x := range a {
			c0 = fmaPair(x[0], b[k][0], fmaPair(x[1], b[k][2], c0))
			c1 = fmaPair(x[0], b[k][1], fmaPair(x[1], b[k][3], c1))
		}
	}
	r.store(0, c0, c1)
}

// rowsGo512 has the bits of rows512.
var rowsGo512 = func() rowMath {
	m := rowsGo
	m.silu = func(dst, src []float32) {
		for i, x := range src {
			dst[i] = x / (1 + exp512(-x))
		}
	}
	m.gelu = func(dst, src []float32) {
		const c = -2 * 0.7978845608028654 // -2 sqrt(2/pi)
		for i, x := range src {
			u := fma32(float32(0.044715*c), float32(x*x), float32(c))
			dst[i] = x / (1 + exp512(float32(x*u)))
		}
	}
	m.rotate = func(dst, src, cos, sin []float32) {
		for j, c := range cos {
			x, y, s := src[2*j], src[2*j+1], sin[j]
			dst[2*j], dst[2*j+1] = fma32(c, x, -float32(y*s)), fma32(c, y, float32(x*s))
		}
	}
	m.sum = func(src []float32) float64 {
		return lanes32(src, func(lane *float64, x float64) { *lane += x })
	}
	m.squares = func(src []float32, mean float64) float64 {
		return lanes32(src, func(lane *float64, x float64) {
			d := float64(x - mean)
			*lane = math.FMA(d, d, *lane)
		})
	}
	m.columnMoments = func(sums, squares []float64, src []float32, rows, stride int) {
		clear(sums)
		clear(squares)
		for i := range rows {
			for j, x := range src[i*stride:][:len(sums)] {
				sums[j] += float64(x)
				squares[j] = math.FMA(float64(x), float64(x), squares[j])
			}
		}
	}
	m.center = func(dst, src, mean, a, b []float32) {
		for i, x := range src {
			dst[i] = fma32(a[i], x-mean[i], b[i])
		}
	}
	m.affine = func(dst, src, a, b []float32, mean, factor float32) {
		for i, x := range src {
			dst[i] = fma32(a[i], float32((x-mean)*factor), b[i])
		}
	}
	m.modulate = func(dst, src, a, b []float32, mean, factor float32) {
		for i, x := range src {
			dst[i] = fma32(1+a[i], float32((x-mean)*factor), b[i])
		}
	}
	return m
}()

// lanes32 adds in four registers of eight lanes: whole turns of 32 elements, then the remainder in the first register.
func lanes32(src []float32, add func(lane *float64, x float64)) float64 {
	var lanes [32]float64
	turns := len(src) &^ 31
	for i, x := range src[:turns] {
		add(&lanes[i%32], float64(x))
	}
	for i, x := range src[turns:] {
		add(&lanes[i%8], float64(x))
	}
	for i := range 8 {
		lanes[i] = (lanes[i] + lanes[8+i]) + (lanes[16+i] + lanes[24+i])
	}
	for _, half := range []int{4, 2, 1} {
		for i := range half {
			lanes[i] += lanes[half+i]
		}
	}
	return lanes[0]
}

// exp512 is e^x with the algorithm of gen/rowsexp.go.
func exp512(x float32) float32 {
	if x != x {
		return x
	}
	x = min(max(x, -104), 89)
	n := float32(math.RoundToEven(float64(float32(x * 1.44269504088896341))))
	x = fma32(-n, 0.693359375, x)
	x = fma32(-n, -2.12194440e-4, x)
	p := float32(1.9875691500e-4)
	for _, c := range [...]float32{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1, 1} {
		p = fma32(p, x, c)
	}
	return scale2(p, n)
}

// scale2 returns p 2^n, rounded once, for integer n.
func scale2(p, n float32) float32 {
	return float32(math.Ldexp(float64(p), int(min(max(n, -400), 400))))
}

// exp2Degree4 and exp2Degree5 are the polynomials of gen/softmax.go.
var (
	exp2Degree4 = []float32{1.0000026226043701, 0.6930038332939148, 0.2414427548646927, 0.052011460065841675,
		0.013534166850149632}
	exp2Degree5 = []float32{0.9999999403953552, 0.6931530833244324, 0.24015361070632935, 0.05582631751894951,
		0.008989340625703335, 0.0018775765784084797}
)

// exp2of512 is 2^x with the algorithm of AVX-512: VREDUCEPS, which rounds x - floor(x) down, a polynomial, and VSCALEFPS.
func exp2of512(x float32, poly []float32) float32 {
	if x != x {
		return x
	}
	x = min(max(x, -226), 300)
	n := float32(math.Floor(float64(x)))
	r := x - n
	if r+n > x {
		r = math.Float32frombits(math.Float32bits(r) - 1)
	}
	p := poly[len(poly)-1]
	for k := len(poly) - 2; k >= 0; k-- {
		p = fma32(p, r, poly[k])
	}
	return scale2(p, n)
}

func exp2RowGo(poly []float32) func(dst, src []float32, top, scale float32) {
	return func(dst, src []float32, top, scale float32) {
		for i, x := range src {
			dst[i] = exp2of512(fma32(scale, x, -top), poly)
		}
	}
}

var softmaxGo512 = softmaxRoutines{
	top: func(src []float32) float32 {
		top := float32(lowestScore)
		for _, x := range src {
			top = max(top, x)
		}
		return top
	},
	exp2: [dots]func(dst, src []float32, top, scale float32){dotF32: exp2RowGo(exp2Degree5), dotPairs: exp2RowGo(exp2Degree4)},
	sum: func(src []float32) float32 {
		var lanes [64]float32
		for i, x := range src {
			lanes[i%64] += x
		}
		for i := range 16 {
			lanes[i] = (lanes[i] + lanes[16+i]) + (lanes[32+i] + lanes[48+i])
		}
		for _, half := range []int{8, 4, 2, 1} {
			for i := range half {
				lanes[i] += lanes[half+i]
			}
		}
		return lanes[0]
	},
	round: roundSoftGo,
}

// roundSoftGo rounds to bf16 like VCVTNEPS2BF16.
func roundSoftGo(row []float32) {
	for i, x := range row {
		row[i] = kernels.FromBF16(kernels.ToBF16(flush(x)))
	}
}

func mulHalfGo(row []float32, half []uint16) {
	for i, h := range half {
		row[i] = float32(row[i] * kernels.FromBF16(h))
	}
}

// attentionGo512 has the bits of attention512.
var attentionGo512 = attentionRoutines{
	softmax: [dots]func(*softmax){
		dotF32:   func(s *softmax) { softmaxGo512.softmax(s, dotF32) },
		dotPairs: func(s *softmax) { softmaxGo512.softmax(s, dotPairs) },
	},
	softmaxUnit: math.Log2E,
	scaleRows:   [dots]scaleFunc{scaleRowsGo},
	copyRows:    copyRowsGo,
	short: &shortRoutines{
		weights: [dots]func(weights, scores unsafe.Pointer, keys int, scale float32){
			dotF32: func(w, s unsafe.Pointer, keys int, scale float32) {
				shortWeightsGo(w, s, keys, scale, exp2Degree5, false)
			},
			dotPairs: func(w, s unsafe.Pointer, keys int, scale float32) {
				shortWeightsGo(w, s, keys, scale, exp2Degree4, true)
			},
		},
		values: [dots][]func(*shortValues){
			dotF32:   {1: func(s *shortValues) { shortValuesGo(s, false, false) }},
			dotPairs: {1: func(s *shortValues) { shortValuesGo(s, true, false) }},
		},
		halves:   []func(*shortValues){1: func(s *shortValues) { shortValuesGo(s, true, true) }},
		prefetch: func(unsafe.Pointer, int, int, int) {},
	},
}

// shortWeightsGo has the bits of shortWeights512 of package gen.
func shortWeightsGo(weights, scores unsafe.Pointer, keys int, scale float32, poly []float32, round bool) {
	whole := (keys + 3) &^ 3
	in := unsafe.Slice((*[shortQueries]float32)(scores), whole)
	out := unsafe.Slice((*[shortQueries]float32)(weights), whole)
	for q := range shortQueries {
		top := float32(lowestScore)
		for i := range in {
			if i >= keys {
				in[i][q] = lowestScore
			}
			top = max(top, in[i][q])
		}
		top = float32(top * scale)
		var sums [4]float32
		for i := range in {
			in[i][q] = exp2of512(fma32(scale, in[i][q], -top), poly)
			sums[i%4] += in[i][q]
		}
		part := 1 / ((sums[0] + sums[1]) + (sums[2] + sums[3]))
		for i := range in {
			x := [1]float32{float32(in[i][q] * part)}
			if round {
				roundSoftGo(x[:])
			}
			out[i][q] = x[0]
		}
	}
}

// shortValuesGo has the bits of shortValues512 of package gen.
func shortValuesGo(s *shortValues, pairs, half bool) {
	weight := func(term, q int) float32 {
		return *(*float32)(unsafe.Add(s.weights, (term*shortQueries+q)*4))
	}
	for q := range s.queries {
		for j := range s.columns {
			value := func(term int) float32 { return *(*float32)(unsafe.Add(s.values, term*s.valueStride+j*4)) }
			sum := float32(0)
			for t := 0; t < s.terms; t++ {
				if !pairs {
					sum = fma32(value(t), weight(t, q), sum)
					continue
				}
				sum = fmaPair(value(t+1), weight(t+1, q), sum)
				sum = fmaPair(value(t), weight(t, q), sum)
				t++
			}
			to := unsafe.Add(s.dst, q*s.dstStride)
			if half {
				*(*uint16)(unsafe.Add(to, j*2)) = kernels.ToBF16(flush(sum))
			} else {
				*(*float32)(unsafe.Add(to, j*4)) = sum
			}
		}
	}
}
