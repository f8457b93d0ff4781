package checkpoint

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"latentbeam/kernels"
)

// Types maps the names that users write to the element types that Convert can round to.
var Types = map[string]string{"f32": "F32", "bf16": "BF16", "f16": "F16"}

// floats are the types that are rounded. Tensors of other types (indices, masks) do not change.
var floats = []string{"F64", "F32", "F16", "BF16"}

// target returns the type in which a tensor of type dtype is written.
func target(dtype, to string) string {
	if to != "" && slices.Contains(floats, dtype) {
		return to
	}
	return dtype
}

// itemSize has the size of the floating-point types in bytes.
var itemSize = map[string]int{"F64": 8, "F32": 4, "F16": 2, "BF16": 2}

// cast is a writer that rounds elements of one floating-point type to another, to nearest even, and writes them to w. Each
// Write must have whole elements.
type cast struct {
	w        io.Writer
	from, to string
	out      []byte
}

func (c *cast) Write(p []byte) (int, error) {
	c.out = c.out[:0]
	for at := 0; at < len(p); at += itemSize[c.from] {
		x := c.read(p[at:])
		switch c.to {
		case "F32":
			c.out = binary.LittleEndian.AppendUint32(c.out, math.Float32bits(float32(x)))
		case "BF16":
			c.out = binary.LittleEndian.AppendUint16(c.out, kernels.ToBF16(float32(x)))
		case "F16":
			h := kernels.ToF16(float32(x))
			if h&0x7fff == 0x7c00 && !math.IsInf(x, 0) {
				return 0, fmt.Errorf("the value %g does not fit f16, which ends at 65504; take bf16", x)
			}
			c.out = binary.LittleEndian.AppendUint16(c.out, h)
		}
	}
	if _, err := c.w.Write(c.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// read returns the first element of p.
func (c *cast) read(p []byte) float64 {
	if c.from == "F64" {
		return math.Float64frombits(binary.LittleEndian.Uint64(p))
	}
	return float64(kernels.DTypes[c.from].At(p, 0))
}
