package kerneltest

import (
	"math"

	"latentbeam/kernels"
)

// unary computes a unary operation in float64.
func unary(op kernels.UnaryOp, x float64) float64 {
	switch op {
	case kernels.SiLU:
		return x / (1 + math.Exp(-x))
	case kernels.Sigmoid:
		return 1 / (1 + math.Exp(-x))
	case kernels.ReLU:
		return max(x, 0)
	case kernels.Tanh:
		return math.Tanh(x)
	case kernels.GELUTanh:
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	return x
}

// linear computes x (M, K) times the transpose of w (N, K).
func linear(x, w array) array {
	m, n, k := x.shape[0], w.shape[0], x.shape[1]
	out := newArray(m, n)
	for i := range m {
		for j := range n {
			for q := range k {
				out.data[i*n+j] += x.data[i*k+q] * w.data[j*k+q]
			}
		}
	}
	return out
}

// attention computes attention with one leading axis: q (B, Lq, H, D), k and v (B, Lk, H, D); lens and bias are optional.
func attention(q, k, v array, scale float64, lens []int, bias *array) array {
	out := newArray(q.shape...)
	for b := range q.shape[0] {
		keys := k.shape[1]
		if lens != nil {
			keys = lens[b]
		}
		for i := range q.shape[1] {
			for h := range q.shape[2] {
				attendOne(out, q, k, v, scale, bias, b, i, h, keys)
			}
		}
	}
	return out
}

// attendOne computes the output of one query: entry b, position i, head h.
func attendOne(out, q, k, v array, scale float64, bias *array, b, i, h, keys int) {
	query, result := q.channels(b, i, h), out.channels(b, i, h)
	weights := make([]float64, keys)
	top, sum := math.Inf(-1), 0.0
	for j := range weights {
		key := k.channels(b, j, h)
		for d, x := range query {
			weights[j] += x * key[d]
		}
		weights[j] *= scale
		if bias != nil {
			weights[j] += *bias.at(h, i, j)
		}
		top = max(top, weights[j])
	}
	for j := range weights {
		weights[j] = math.Exp(weights[j] - top)
		sum += weights[j]
	}
	for j, w := range weights {
		w /= sum
		for d, x := range v.channels(b, j, h) {
			result[d] += w * x
		}
	}
}

// channels returns the values of an array (B, L, H, D) at an entry, a position and a head.
func (a array) channels(b, l, h int) []float64 {
	d := a.shape[3]
	start := ((b*a.shape[1]+l)*a.shape[2] + h) * d
	return a.data[start : start+d]
}

// normalize centres (unless rms) and scales the elements at the given indices.
func normalize(data []float64, places []int, rms bool, eps float64) {
	mean, variance := 0.0, 0.0
	if !rms {
		for _, i := range places {
			mean += data[i]
		}
		mean /= float64(len(places))
	}
	for _, i := range places {
		variance += (data[i] - mean) * (data[i] - mean)
	}
	factor := 1 / math.Sqrt(variance/float64(len(places))+eps)
	for _, i := range places {
		data[i] = (data[i] - mean) * factor
	}
}

// norm normalises x (N, H, W, C) in place: over the last axis, or over groups of channels of an image.
func norm(x array, kind kernels.NormKind, groups int, eps float64) {
	if len(x.data) == 0 {
		return
	}
	c := x.shape[3]
	per, parts := c, len(x.data)/c
	if kind == kernels.GroupNorm {
		per, parts = len(x.data)/x.shape[0], x.shape[0]
	} else {
		groups = 1
	}
	for p := range parts {
		for g := range groups {
			var places []int
			for i := range per {
				if i%c/(c/groups) == g {
					places = append(places, p*per+i)
				}
			}
			normalize(x.data, places, kind == kernels.RMSNorm, eps)
		}
	}
}

// rope rotates the pairs of x (B, L, H, D) by angles (L, D/2).
func rope(x, cos, sin array) array {
	out := newArray(x.shape...)
	l, h, d := x.shape[1], x.shape[2], x.shape[3]
	for i, v := range x.data {
		at := i/(h*d)%l*(d/2) + i%d/2
		partner, sign := i+1, -1.0
		if i%2 == 1 {
			partner, sign = i-1, 1
		}
		out.data[i] = v*cos.data[at] + sign*x.data[partner]*sin.data[at]
	}
	return out
}

// conv computes a convolution: x (N, T, H, W, Cin), w (Cout, Cin, KT, KH, KW).
func conv(x, w array, spec kernels.ConvSpec) array {
	stride, strideT, up := max(1, spec.Stride), max(1, spec.StrideT), max(1, spec.Upsample)
	height, width := x.shape[2]*up, x.shape[3]*up
	out := newArray(x.shape[0], (x.shape[1]+spec.Front+spec.Back-w.shape[2])/strideT+1,
		(height+spec.Top+spec.Bottom-w.shape[3])/stride+1, (width+spec.Left+spec.Right-w.shape[4])/stride+1,
		w.shape[0])
	for n := range out.shape[0] {
		for t := range out.shape[1] {
			for y := range out.shape[2] {
				for xx := range out.shape[3] {
					for o := range out.shape[4] {
						*out.at(n, t, y, xx, o) = convOne(x, w, n, t*strideT-spec.Front, y*stride-spec.Top,
							xx*stride-spec.Left, o, up)
					}
				}
			}
		}
	}
	return out
}

// convOne computes one output value: channel o, with the first tap of the kernel at (first, top, left) of item n.
func convOne(x, w array, n, first, top, left, o, up int) (sum float64) {
	for c := range w.shape[1] {
		for kt := range w.shape[2] {
			for ky := range w.shape[3] {
				for kx := range w.shape[4] {
					t, y, xx := first+kt, top+ky, left+kx
					if t >= 0 && t < x.shape[1] && y >= 0 && y < x.shape[2]*up && xx >= 0 && xx < x.shape[3]*up {
						sum += *x.at(n, t, y/up, xx/up, c) * *w.at(o, c, kt, ky, kx)
					}
				}
			}
		}
	}
	return sum
}
