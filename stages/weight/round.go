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
	decodeInto(out, data, from)
	return out
}

// decodeInto fills out with little-endian elements.
func decodeInto(out []float32, data []byte, from kernels.DType) {
	switch from {
	case kernels.F32:
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	case kernels.BF16:
		for i := range out {
			out[i] = kernels.FromBF16(binary.LittleEndian.Uint16(data[2*i:]))
		}
	default:
		for i := range out {
			out[i] = element(data, from, i)
		}
	}
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
