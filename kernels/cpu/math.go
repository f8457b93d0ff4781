package cpu

import "math"

// exp returns e^x with a relative error below 2e-7, with the method of Cephes' expf: x = n ln 2 + r with ln 2 in two parts, a
// polynomial of degree 5 for e^r, and n added to the exponent. Below -87.33 it returns 0, above 88.37 infinity. It uses only
// single additions and multiplications, so the bits are the same on every platform.
func exp(x float32) float32 {
	const (
		log2e = 1.44269504088896341
		ln2Hi = 0.693359375
		ln2Lo = -2.12194440e-4
		magic = 12582912 // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
	)
	if x > 88.37 {
		return float32(math.Inf(1))
	}
	if x < -87.33 {
		return 0
	}
	t := float32(x*log2e) + magic
	n := t - magic
	r := x - float32(n*ln2Hi)
	r -= float32(n * ln2Lo)
	p := float32(float32(1.9875691500e-4*r) + 1.3981999507e-3)
	p = float32(p*r) + 8.3334519073e-3
	p = float32(p*r) + 4.1665795894e-2
	p = float32(p*r) + 1.6666665459e-1
	p = float32(p*r) + 5.0000001201e-1
	p = float32(float32(p*r)*r) + r + 1
	return p * math.Float32frombits((math.Float32bits(t)+127)<<23)
}

// siluGo computes x / (1 + e^-x).
func siluGo(dst, src []float32) {
	for i, x := range src {
		dst[i] = x / (1 + exp(-x))
	}
}

// sigmoidGo computes 1 / (1 + e^-x).
func sigmoidGo(dst, src []float32) {
	for i, x := range src {
		dst[i] = 1 / (1 + exp(-x))
	}
}

// reluGo computes max(x, 0).
func reluGo(dst, src []float32) {
	for i, x := range src {
		dst[i] = max(x, 0)
	}
}

// tanhGo computes (1 - e^-2x) / (1 + e^-2x) of the absolute value. Near 0, where the difference loses precision, it uses the
// series.
func tanhGo(dst, src []float32) {
	const near = 0.25
	for i, x := range src {
		a := max(x, -x)
		if a < near {
			s := float32(x * x)
			p := float32(s*(62.0/2835)) - 17.0/315
			p = float32(p*s) + 2.0/15
			p = float32(p*s) - 1.0/3
			dst[i] = float32(float32(p*s)*x) + x
			continue
		}
		e := exp(-2 * a)
		t := (1 - e) / (1 + e)
		if x < 0 {
			t = -t
		}
		dst[i] = t
	}
}

// geluGo uses 0.5 (1 + tanh u) = 1 / (1 + e^(-2u)), which avoids the loss of precision of 1 + tanh.
func geluGo(dst, src []float32) {
	const c0 = 2 * 0.7978845608028654 // 2 sqrt(2/pi)
	for i, x := range src {
		u := float32(float32(0.044715*x)*x) + 1
		dst[i] = x / (1 + exp(-float32(float32(c0*x)*u)))
	}
}
