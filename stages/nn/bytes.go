package nn

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"latentbeam/kernels"
)

// Bytes returns what the weights take on a device when they are loaded as dt: all, the largest part, which must
// be there at once when they are streamed, and the parts in order: what belongs to no block, then the blocks.
// Values are never widened.
func (c *Component[C, M]) Bytes(dt kernels.DType) (all, largest int64, inOrder []int64) {
	parts := map[string]int64{"": 0}
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
	for _, name := range slices.SortedFunc(maps.Keys(parts), byNumber) {
		inOrder = append(inOrder, parts[name])
	}
	return all, largest, inOrder
}

// byNumber compares names of blocks: by their number, those of one number by name.
func byNumber(a, b string) int {
	number := func(name string) int {
		n, err := strconv.Atoi(name[strings.LastIndexByte(name, '.')+1:])
		if err != nil {
			return -1
		}
		return n
	}
	return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b))
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
