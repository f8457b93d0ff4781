package cpu

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"latentbeam/kernels"
)

// TestSoftmaxFields: the fields of softmax have the offsets that the assembly uses.
func TestSoftmaxFields(t *testing.T) {
	var s softmax
	for i, off := range []uintptr{
		unsafe.Offsetof(s.scores), unsafe.Offsetof(s.stride), unsafe.Offsetof(s.weights),
		unsafe.Offsetof(s.weightStride), unsafe.Offsetof(s.rows), unsafe.Offsetof(s.keys), unsafe.Offsetof(s.top),
		unsafe.Offsetof(s.sum), unsafe.Offsetof(s.rescale), unsafe.Offsetof(s.scale),
	} {
		if off != uintptr(8*i) {
			t.Errorf("field %d of softmax is at byte %d, the assembly expects %d", i, off, 8*i)
		}
	}
}

// TestShortFields: the fields of shortValues have the offsets that the assembly uses.
func TestShortFields(t *testing.T) {
	var s shortValues
	for i, off := range []uintptr{
		unsafe.Offsetof(s.dst), unsafe.Offsetof(s.dstStride), unsafe.Offsetof(s.weights),
		unsafe.Offsetof(s.values), unsafe.Offsetof(s.valueStride), unsafe.Offsetof(s.terms),
		unsafe.Offsetof(s.queries), unsafe.Offsetof(s.columns),
	} {
		if off != uintptr(8*i) {
			t.Errorf("field %d of shortValues is at byte %d, the assembly expects %d", i, off, 8*i)
		}
	}
}

// TestSoftmax compares the weights and sums of every tier with float64. Softmax takes two blocks of keys, one after the other, so that it must
// rescale the sum of the first by the new largest score. The scores differ by up to 300. The allowed error of a weight is the rounding of its
// score and of bf16. If bf16 weights are pairs of keys, the missing half of the last pair is zero.
func TestSoftmax(t *testing.T) {
	const rows = 3
	r := rand.New(rand.NewPCG(9, 9))
	onTiers(t, func(t *testing.T, tier *tier) {
		for d, run := range tier.attend.softmax {
			for keys := 1; run != nil && keys < 200; keys += 1 + keys/20 {
				for _, spread := range []float32{0.1, 1, 30, 300} {
					checkSoftmax(t, tier, dot(d), rows, keys, spread, r)
				}
			}
		}
	})
}

// checkSoftmax is one case of TestSoftmax. The scores of a block differ by up to spread times its number, from 1.
func checkSoftmax(t *testing.T, tier *tier, d dot, rows, keys int, spread float32, r *rand.Rand) {
	t.Helper()
	stride := (keys+keyTurn-1)/keyTurn*keyTurn + 16
	var top, sum, rescale [8]float32
	var tops, sums [8]float64
	for i := range rows {
		top[i], tops[i] = lowestScore, math.Inf(-1)
	}
	for block := range 2 {
		scores, weights := make([]float32, rows*stride), make([]float32, rows*stride)
		for i := range scores {
			scores[i], weights[i] = (r.Float32()-0.5)*float32(1+block), 5
		}
		s := softmax{scores: unsafe.Pointer(&scores[0]), stride: stride * 4, weights: unsafe.Pointer(&weights[0]),
			weightStride: stride * 4, rows: rows, keys: keys, top: unsafe.Pointer(&top), sum: unsafe.Pointer(&sum),
			rescale: unsafe.Pointer(&rescale), scale: spread * tier.attend.softmaxUnit}
		tier.attend.softmax[d](&s)
		tolerance := 4e-7 * max(1, math.Abs(float64(spread))) // from rounding the scores
		for i := range rows {
			before := tops[i]
			for _, x := range scores[i*stride:][:keys] {
				tops[i] = max(tops[i], float64(x)*float64(spread))
			}
			sums[i] *= math.Exp(before - tops[i])
			for j := range d.terms(keys) * d.perTerm() {
				want, got, allowed := 0.0, float64(weights[i*stride+j]), tolerance
				if d == dotBF16 {
					half := unsafe.Slice((*uint16)(unsafe.Pointer(&weights[i*stride])), stride)
					got = float64(kernels.FromBF16(half[j]))
				}
				if j < keys {
					want = math.Exp(float64(scores[i*stride+j])*float64(spread) - tops[i])
					sums[i] += want
				}
				if d != dotF32 {
					allowed += want / 256
				}
				if !(math.Abs(got-want) <= allowed) {
					t.Fatalf("%d keys, spread %v, block %d: weight %d is %v, want %v", keys, spread, block, j, got, want)
				}
			}
			if !(math.Abs(float64(sum[i])-sums[i]) <= (tolerance+3e-6*float64(min(d, 1)))*sums[i]*4) {
				t.Fatalf("%d keys, spread %v: sum %v, want %v", keys, spread, sum[i], sums[i])
			}
		}
	}
}
