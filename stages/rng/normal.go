package rng

import "math"

// perBlock is the number of normals in one block of the generator.
const perBlock = 4

// Given marks the steps for noise on given frames. Steps from 1 << 31 on belong to autoencoders.
const Given uint32 = 1 << 30

// Clip returns the first step for clip number n of a longer video. A sampler uses fewer than 4096 steps from there.
func Clip(n int) uint32 { return uint32(n) << 12 }

// Normals fills dst with the standard normal values of elements offset, offset+1, ... for this seed, sample and step (see the
// package comment for steps). An element's value does not depend on the range of a call.
//
// Element e is number e%4 of block e/4. The block is Philox4x32-10 with the seed as key (low word first)
// and the counter (low and high word of e/4, sample, step); its words (a, b, c, d) give, by Box and
// Muller in float64 rounded once to fp32,
//
//	r(a) cos(2 pi b/2^32), r(a) sin(2 pi b/2^32), r(c) cos(2 pi d/2^32), r(c) sin(2 pi d/2^32)
//
// with r(x) = sqrt(-2 ln((x+1)/2^32)), so no value lies beyond 6.66.
func Normals(dst []float32, seed uint64, sample, step uint32, offset uint64) {
	key := [2]uint32{uint32(seed), uint32(seed >> 32)}
	for len(dst) > 0 {
		block, skip := offset/perBlock, offset%perBlock
		w := philox([4]uint32{uint32(block), uint32(block >> 32), sample, step}, key)
		var four [perBlock]float32
		four[0], four[1] = boxMuller(w[0], w[1])
		four[2], four[3] = boxMuller(w[2], w[3])
		n := copy(dst, four[skip:])
		dst = dst[n:]
		offset += uint64(n)
	}
}

// boxMuller turns two uniform words into two independent normals.
func boxMuller(a, b uint32) (float32, float32) {
	r := math.Sqrt(-2 * logUnit(uint64(a)+1))
	sin, cos := sinCosTurn(b)
	return float32(r * cos), float32(r * sin)
}

// The last bit of the standard library's Log, Sin and Cos may differ between platforms (assembly, fused multiply-add). Below,
// every product is rounded by a conversion, so the noise is the same everywhere.

// logUnit returns ln(n / 2^32) for 1 <= n <= 2^32: n = m 2^e with m near 1, and
// ln m = 2 artanh s = 2 (s + s^3/3 + s^5/5 + ...) with s = (m-1)/(m+1), |s| < 0.1716.
func logUnit(n uint64) float64 {
	m, e := math.Frexp(float64(n))
	if m < math.Sqrt2/2 {
		m, e = m*2, e-1
	}
	s := (m - 1) / (m + 1)
	z := float64(s * s)
	sum := 0.0
	for k := 21; k > 1; k -= 2 { // s^23/23 is below 1e-18
		sum = float64(z * (1/float64(k) + sum))
	}
	return float64(float64(e-32)*math.Ln2) + float64(2*float64(s*(1+sum)))
}

// sinCosTurn returns the sine and cosine of 2 pi n/2^32: the nearest quarter turn exactly, the rest (at most pi/4) by Taylor
// series.
func sinCosTurn(n uint32) (sin, cos float64) {
	const eighth = 1 << 29
	quarter := (n + eighth) >> 30
	x := float64(float64(int32(n-quarter<<30)) * (2 * math.Pi / (1 << 32)))
	z := float64(x * x)
	s, c := 0.0, 0.0
	for k := 16; k > 0; k -= 2 { // x^19/19! is below 1e-19
		s = -float64(z*(1+s)) / float64(k*(k+1))
		c = -float64(z*(1+c)) / float64(k*(k-1))
	}
	s, c = float64(x*(1+s)), 1+c
	switch quarter & 3 {
	case 1:
		return c, -s
	case 2:
		return -s, -c
	case 3:
		return -c, s
	}
	return s, c
}
