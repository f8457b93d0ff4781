package nntest

import (
	"hash/crc32"
	"math"
	"strings"

	"latentbeam/kernels"
)

// Hash returns prod(shape) values in [-amp, amp) that depend on the name and the index alone, by the rule
// in "_about" of testdata/golden/open-sora.json.
func Hash(name string, amp float64, shape ...int) []float32 {
	seed := crc32.ChecksumIEEE([]byte(name))
	out := make([]float32, kernels.Elements(shape))
	for i := range out {
		u := float64(mix32(seed^(uint32(i)*0x9E3779B1))) / (1 << 32)
		out[i] = float32(amp * (2*u - 1))
	}
	return out
}

func mix32(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x85ebca6b
	x ^= x >> 13
	x *= 0xc2b2ae35
	x ^= x >> 16
	return x
}

// Weight returns the values of a parameter by the amplitude rules of the golden files.
func Weight(name string, shape ...int) []float32 {
	weight := strings.HasSuffix(name, ".weight")
	switch {
	case strings.HasSuffix(name, "scale_shift_table"), strings.HasSuffix(name, "scale_shift_table_temporal"):
		return Hash(name, 0.3, shape...)
	case strings.HasSuffix(name, "y_embedding"):
		return Hash(name, 1, shape...)
	case weight && len(shape) >= 2:
		fanIn := 1
		for _, d := range shape[1:] {
			fanIn *= d
		}
		return Hash(name, math.Sqrt(3/float64(fanIn)), shape...)
	case weight:
		out := Hash(name, 0.1, shape...)
		for i := range out {
			out[i]++
		}
		return out
	}
	return Hash(name, 0.1, shape...)
}
