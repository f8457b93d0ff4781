package kernels

import "fmt"

// DType is the element type of a Tensor.
type DType uint8

// The element types a Tensor may have. Arithmetic is done in fp32 whatever the storage type.
const (
	F32  DType = iota // IEEE 754 binary32
	BF16              // bfloat16: the upper half of a binary32
	F16               // IEEE 754 binary16
)

// Size returns the bytes of one element.
func (d DType) Size() int {
	if d == F32 {
		return 4
	}
	return 2
}

// String returns the name used by safetensors: F32, BF16 or F16.
func (d DType) String() string {
	switch d {
	case F32:
		return "F32"
	case BF16:
		return "BF16"
	case F16:
		return "F16"
	}
	return fmt.Sprintf("DType(%d)", uint8(d))
}
