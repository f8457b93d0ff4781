package transport

import (
	"encoding/binary"
	"math"

	"latentbeam/kernels"
)

// encode writes values to b in the storage type dt, little-endian. Values come from a tensor of that type,
// so nothing is rounded.
func encode(b []byte, dt kernels.DType, values []float32) {
	switch dt {
	case kernels.F32:
		for i, v := range values {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
		}
	case kernels.BF16:
		for i, v := range values {
			binary.LittleEndian.PutUint16(b[2*i:], kernels.ToBF16(v))
		}
	default:
		for i, v := range values {
			binary.LittleEndian.PutUint16(b[2*i:], kernels.ToF16(v))
		}
	}
}

// decode is the inverse of encode.
func decode(values []float32, dt kernels.DType, b []byte) {
	switch dt {
	case kernels.F32:
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case kernels.BF16:
		for i := range values {
			values[i] = kernels.FromBF16(binary.LittleEndian.Uint16(b[2*i:]))
		}
	default:
		for i := range values {
			values[i] = kernels.FromF16(binary.LittleEndian.Uint16(b[2*i:]))
		}
	}
}
