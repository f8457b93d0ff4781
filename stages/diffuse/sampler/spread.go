package sampler

import "math"

// rescaled is how far the guided velocity is pulled back towards the spread of the conditional one (section 3.4 of
// arXiv:2305.08891; the value is Open-Sora 1.3's).
const rescaled = 0.7

// Moments are the sums that give the spread of some of an element's values. Squares of fp32 values are exact in fp64.
type Moments struct{ Sum, Squares float64 }

// momentsOf returns the moments of each position of v (planes, positions), where planes are the channels and frames, in index
// order. The sum over an element adds its positions in order. So several workers can each have some positions of an element and
// still get the same sums.
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

// deviation returns the sample standard deviation over the given positions.
func deviation(positions []Moments, planes int) float64 {
	var m Moments
	for _, p := range positions {
		m.Sum += p.Sum
		m.Squares += p.Squares
	}
	n := float64(planes * len(positions))
	return math.Sqrt((m.Squares - float64(m.Sum*m.Sum)/n) / (n - 1))
}

// rescale multiplies v by a factor that moves its spread from own towards target, by the part rescaled.
func rescale(v []float32, target, own float64) {
	factor := float32(float64(rescaled*target/own) + (1 - rescaled))
	for i := range v {
		v[i] *= factor
	}
}
