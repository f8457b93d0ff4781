package kernels

import (
	"encoding/binary"
	"math"
)

// DTypes are the element types by the names of safetensors.
var DTypes = map[string]DType{"F32": F32, "BF16": BF16, "F16": F16}

// Round returns x as the type stores it: the nearest value, ties to even.
func (d DType) Round(x float32) float32 {
	switch d {
	case BF16:
		return FromBF16(ToBF16(x))
	case F16:
		return FromF16(ToF16(x))
	}
	return x
}

// At returns element i of little-endian data of the type.
func (d DType) At(data []byte, i int) float32 {
	switch d {
	case BF16:
		return FromBF16(binary.LittleEndian.Uint16(data[2*i:]))
	case F16:
		return FromF16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
}

// Values returns the elements of little-endian data of the type.
func (d DType) Values(data []byte) []float32 {
	out := make([]float32, len(data)/d.Size())
	d.Decode(out, data)
	return out
}

// Decode fills dst with the first elements of little-endian data of the type.
func (d DType) Decode(dst []float32, data []byte) {
	switch d {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = FromBF16(binary.LittleEndian.Uint16(data[2*i:]))
		}
	default:
		for i := range dst {
			dst[i] = FromF16(binary.LittleEndian.Uint16(data[2*i:]))
		}
	}
}

// Bytes returns values as little-endian data of the type, each rounded to it.
func (d DType) Bytes(values []float32) []byte {
	out := make([]byte, len(values)*d.Size())
	d.Encode(out, values)
	return out
}

// Encode writes values to dst as Bytes returns them.
func (d DType) Encode(dst []byte, values []float32) {
	switch d {
	case F32:
		for i, v := range values {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
	case BF16:
		for i, v := range values {
			binary.LittleEndian.PutUint16(dst[2*i:], ToBF16(v))
		}
	default:
		for i, v := range values {
			binary.LittleEndian.PutUint16(dst[2*i:], ToF16(v))
		}
	}
}
