package kernels

import "math"

// FromBF16 returns the value of a bfloat16.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// ToBF16 rounds f to the nearest bfloat16, ties to even. A NaN stays a NaN.
func ToBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if f != f {
		return uint16(bits>>16) | 0x40 // quiet, so that a payload in the lower half cannot round to Inf
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// FromF16 returns the value of an IEEE 754 binary16.
func FromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exp {
	case 0: // zero or subnormal: frac * 2^-24, exact in fp32
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*0x1p-24))
	case 31: // Inf or NaN
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// ToF16 rounds f to the nearest binary16, ties to even. Values that round beyond 65504 become infinities.
func ToF16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	abs := bits &^ (1 << 31)
	switch {
	case abs > 0x7f800000: // NaN
		return sign | 0x7e00
	case abs >= 0x47800000: // 2^16 and more
		return sign | 0x7c00
	case abs < 0x38800000: // below 2^-14: adding 0.5 rounds at 2^-24, the subnormal step
		return sign | uint16(math.Float32bits(math.Float32frombits(abs)+0.5)-math.Float32bits(0.5))
	}
	return sign | uint16((abs-(127-15)<<23+0xfff+abs>>13&1)>>13)
}
