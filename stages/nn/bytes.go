package nn

import (
	"strings"

	"latentbeam/kernels"
)

// Bytes returns what the weights take on a device when they are loaded as dt, and the largest part that must
// be there at once when they are streamed: a block, or what belongs to none. Values are never widened.
func (c *Component[C, M]) Bytes(dt kernels.DType) (all, largest int64) {
	parts := map[string]int64{}
	for _, name := range c.weights.Names() {
		t, _ := c.weights.Tensor(name)
		n := int64(len(t.Data))
		if stored, known := dtypes[t.DType]; known && dt.Size() < stored.Size() {
			n = n / int64(stored.Size()) * int64(dt.Size())
		}
		all += n
		part := block(name)
		parts[part] += n
		largest = max(largest, parts[part])
	}
	return all, largest
}

// block returns the part of a tensor's name up to its first number, such as encoder.block.3, or "" where it
// has none.
func block(name string) string {
	for i := 0; i < len(name); {
		end := strings.IndexByte(name[i:], '.')
		if end < 0 {
			return ""
		}
		end += i
		if i > 0 && strings.Trim(name[i:end], "0123456789") == "" && end > i {
			return name[:end]
		}
		i = end + 1
	}
	return ""
}
