package weight

import (
	"encoding/binary"
	"math"

	"latentbeam/kernels"
)

// Round returns x rounded to dt: to the nearest value, ties to even.
func Round(dt kernels.DType, x float32) float32 {
	switch dt {
	case kernels.BF16:
		return kernels.FromBF16(kernels.ToBF16(x))
	case kernels.F16:
		return kernels.FromF16(kernels.ToF16(x))
	}
	return x
}

// decode returns little-endian data as fp32.
func decode(data []byte, from kernels.DType) []float32 {
	out := make([]float32, len(data)/from.Size())
	for i := range out {
		out[i] = element(data, from, i)
	}
	return out
}

// element returns element i of little-endian data.
func element(data []byte, dt kernels.DType, i int) float32 {
	switch dt {
	case kernels.BF16:
		return kernels.FromBF16(binary.LittleEndian.Uint16(data[2*i:]))
	case kernels.F16:
		return kernels.FromF16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
}
