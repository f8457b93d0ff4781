package cpu

import (
	"math"
	"unsafe"
)

// softmax is one block of keys of an online softmax (Milakov and Gimelshein, arXiv 1805.02867). It turns the scores of some
// rows into weights e^(score - top), where top is the largest scaled score of the row so far. For each row it updates top and
// the sum of all weights, and sets rescale to the factor for the earlier sums.
//
// The generated assembly depends on the order of the fields.
type softmax struct {
	scores       unsafe.Pointer // fp32; keys of each row, and room up to a multiple of keyTurn
	stride       int            // bytes between rows
	weights      unsafe.Pointer // fp32, may be scores, or bf16; a multiple of keyTurn weights is written
	weightStride int
	rows         int
	keys         int            // at least 1
	top          unsafe.Pointer // *float32, one for each row
	sum          unsafe.Pointer
	rescale      unsafe.Pointer
	scale        float32 // factor on the scores, positive; in units of attentionRoutines.softmaxUnit
}

// keyTurn is the number of weights that a softmax writes at a time, at most; weights after the last key are zero.
const keyTurn = 64

// lowestScore is the value of top before a row's first block.
const lowestScore = -math.MaxFloat32

// softmaxGo is the portable routine.
func softmaxGo(s *softmax) {
	for i := range s.rows {
		row := unsafe.Slice((*float32)(unsafe.Add(s.scores, i*s.stride)), s.keys)
		out := unsafe.Slice((*float32)(unsafe.Add(s.weights, i*s.weightStride)), s.keys)
		top, sum := (*float32)(unsafe.Add(s.top, i*4)), (*float32)(unsafe.Add(s.sum, i*4))
		before := *top
		for _, x := range row {
			*top = max(*top, float32(x*s.scale))
		}
		rescale := exp(before - *top)
		total := 0.0
		for j, x := range row {
			e := exp(float32(x*s.scale) - *top)
			out[j] = e
			total += float64(e)
		}
		*sum = float32(*sum*rescale) + float32(total)
		*(*float32)(unsafe.Add(s.rescale, i*4)) = rescale
	}
}
