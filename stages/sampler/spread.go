package sampler

import "math"

// The guided velocity is brought back towards the spread of the conditional one by this part (section 3.4 of
// arXiv:2305.08891, with Open-Sora 1.3's value).
const rescaled = 0.7

// moments are what the spread of an element's values is made of. Squares of fp32 values are exact in fp64; the
// sums are in index order.
type moments struct{ n, sum, squares float64 }

func momentsOf(v []float32) moments {
	m := moments{n: float64(len(v))}
	for _, x := range v {
		m.sum += float64(x)
		m.squares += float64(float64(x) * float64(x))
	}
	return m
}

// deviation is the standard deviation of a sample.
func (m moments) deviation() float64 {
	return math.Sqrt((m.squares - float64(m.sum*m.sum)/m.n) / (m.n - 1))
}

// rescale multiplies v, whose moments are given, by the factor that takes its spread the part rescaled of the
// way to that of target.
func rescale(v []float32, target, own moments) {
	factor := float32(float64(rescaled*target.deviation()/own.deviation()) + (1 - rescaled))
	for i := range v {
		v[i] *= factor
	}
}
