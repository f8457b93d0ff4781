package cpu

import (
	"math"
	"unsafe"
)

// attention512 is attention for AVX-512; what ends in bf16 is for the tier that has VDPBF16PS.
var attention512 = attentionMath{
	softmax:     [dots]func(*softmax){softmax512F32, softmax512BF16},
	softmaxUnit: math.Log2E,
	scaleRows:   [dots]scaleFunc{scaleRows512F32, scaleRows512BF16},
	copyRows:    copyRows512,
	short: &shortMath{
		weights: [...]func(weights, scores unsafe.Pointer, keys int, scale float32){
			shortWeightsF32512, shortWeightsBF16512,
		},
		values:   [...][]func(*shortValues){shortF32512[:], shortBF16toF32512[:]},
		halves:   shortBF16512[:],
		prefetch: prefetchRows,
	},
}

// attention256 is attention for AVX2.
var attention256 = attentionMath{
	softmax:     [dots]func(*softmax){softmax256},
	softmaxUnit: math.Log2E,
	scaleRows:   [dots]scaleFunc{scaleRows256},
	copyRows:    copyRowsGo,
}
