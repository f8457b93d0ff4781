package sampler

import "math"

// The guided velocity is brought back towards the spread of the conditional one by this part (section 3.4 of
// arXiv:2305.08891, with Open-Sora 1.3's value).
const rescaled = 0.7

// Moments are what the spread of some of an element's values is made of. Squares of fp32 values are exact in
// fp64.
type Moments struct{ Sum, Squares float64 }

// momentsOf returns the moments of each position of v (planes, positions), planes being the channels and
// frames, in index order. Sums over all of an element are those of its positions, in order: several workers
// can have the positions of one element and come to the same sums.
func momentsOf(v []float32, planes int) []Moments {
	out := make([]Moments, len(v)/planes)
	for p := range planes {
		for i, x := range v[p*len(out) : (p+1)*len(out)] {
			out[i].Sum += float64(x)
			out[i].Squares += float64(float64(x) * float64(x))
		}
	}
	return out
}

// deviation is the standard deviation of a sample of the given positions.
func deviation(positions []Moments, planes int) float64 {
	var m Moments
	for _, p := range positions {
		m.Sum += p.Sum
		m.Squares += p.Squares
	}
	n := float64(planes * len(positions))
	return math.Sqrt((m.Squares - float64(m.Sum*m.Sum)/n) / (n - 1))
}

// rescale multiplies v by the factor that takes its spread the part rescaled of the way to that of target.
func rescale(v []float32, target, own float64) {
	factor := float32(float64(rescaled*target/own) + (1 - rescaled))
	for i := range v {
		v[i] *= factor
	}
}
