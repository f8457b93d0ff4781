package cpu

import (
	"math"
	"unsafe"
)

// attention512 is attention for AVX-512. Only the tier with VDPBF16PS uses the routines that store bf16.
var attention512 = attentionRoutines{
	softmax:     [dots]func(*softmax){softmax512F32, softmax512BF16},
	softmaxUnit: math.Log2E,
	scaleRows:   [dots]scaleFunc{scaleRows512F32, scaleRows512BF16},
	copyRows:    copyRows512,
	short: &shortRoutines{
		weights: [dots]func(weights, scores unsafe.Pointer, keys int, scale float32){
			shortWeightsF32512, shortWeightsBF16512,
		},
		values:   [dots][]func(*shortValues){shortF32512[:], shortBF16toF32512[:]},
		halves:   shortBF16512[:],
		prefetch: prefetchRows,
	},
}

// attention512Soft is attention for AVX-512, with the same bits as AVX512_BF16.
var attention512Soft = func() attentionRoutines {
	m, short := attention512, *attention512.short
	m.softmax[dotBF16], m.softmax[dotPairs] = nil, softmax512Pairs
	m.scaleRows[dotBF16] = scaleRows512BF16Soft
	short.weights[dotBF16], short.weights[dotPairs] = nil, shortWeightsPairs512
	short.values[dotBF16], short.values[dotPairs] = nil, shortPairsToF32512[:]
	short.halves, m.short = shortPairsToBF16512[:], &short
	return m
}()

// attention256 is attention for AVX2.
var attention256 = attentionRoutines{
	softmax:     [dots]func(*softmax){softmax256},
	softmaxUnit: math.Log2E,
	scaleRows:   [dots]scaleFunc{scaleRows256},
	copyRows:    copyRowsAVX2,
	short: &shortRoutines{
		weights:  [dots]func(weights, scores unsafe.Pointer, keys int, scale float32){shortWeights256},
		values:   [dots][]func(*shortValues){shortF32256[:]},
		prefetch: prefetchRows,
	},
}

// attention256of512 is attention for AVX2, with the same bits as attention512.
var attention256of512 = attentionRoutines{
	softmax: [dots]func(*softmax){
		dotF32:   func(s *softmax) { softmax256of512.softmax(s, dotF32) },
		dotPairs: func(s *softmax) { softmax256of512.softmax(s, dotPairs) },
	},
	softmaxUnit: math.Log2E,
	scaleRows:   [dots]scaleFunc{scaleRows256},
	copyRows:    copyRowsAVX2,
	short: &shortRoutines{
		weights:  [dots]func(weights, scores unsafe.Pointer, keys int, scale float32){dotF32: shortWeights256of512, dotPairs: shortWeights256Pairs},
		values:   [dots][]func(*shortValues){dotF32: shortF32256[:], dotPairs: shortPairs256[:]},
		halves:   []func(*shortValues){2: shortPairs256Half},
		prefetch: prefetchRows,
	},
}

var softmax256of512 = softmaxRoutines{
	top:   topRow256,
	exp2:  [dots]func(dst, src []float32, top, scale float32){dotF32: exp2Row256, dotPairs: exp2Row256Pairs},
	sum:   sum64Row256,
	round: roundRow256Soft,
}

// shortPairs256Half is shortPairs256 with bf16 results.
func shortPairs256Half(s *shortValues) {
	var sums [shortQueries][16]float32
	wide := *s
	wide.dst, wide.dstStride = unsafe.Pointer(&sums), 64
	shortPairs256x2(&wide)
	for q := range s.queries {
		dst := unsafe.Slice((*uint16)(unsafe.Add(s.dst, q*s.dstStride)), s.columns)
		roundRow256Soft(sums[q][:])
		for j := range dst {
			dst[j] = uint16(math.Float32bits(sums[q][j]) >> 16)
		}
	}
}

// copyRowsAVX2 copies rows in assembly if they consist of whole vectors, else in Go.
func copyRowsAVX2(dst, src unsafe.Pointer, dstStride, srcStride, rows, bytes int) {
	if vectors := bytes / 32; bytes%32 == 0 && rows > 0 && vectors > 0 {
		copyRows256(dst, src, dstStride, srcStride, rows, vectors)
		return
	}
	copyRowsGo(dst, src, dstStride, srcStride, rows, bytes)
}
